package datastore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// sink keeps what is sent to it.
type sink struct {
	etcdserverpb.Watch_WatchServer
	revisions []int64
	events    []*mvccpb.Event
}

func (s *sink) Context() context.Context { return context.Background() }

func (s *sink) Send(r *etcdserverpb.WatchResponse) error {
	s.revisions = append(s.revisions, r.Header.Revision)
	s.events = append(s.events, r.Events...)
	return nil
}

// TestProgressOfOthersWatchesDoesNotGoBack: it is left out if a newer change has been sent.
func TestProgressOfOthersWatchesDoesNotGoBack(t *testing.T) {
	to := &sink{}
	s := &sharedStream{Watch_WatchServer: to, get: func(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
		return &etcdserverpb.RangeResponse{}, nil
	}}
	at := func(revision int64) *etcdserverpb.ResponseHeader {
		return &etcdserverpb.ResponseHeader{Revision: revision}
	}
	for _, r := range []*etcdserverpb.WatchResponse{
		{Header: at(1), Created: true},
		{Header: at(2)},
		{Header: at(6), Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{ModRevision: 4}}, {Kv: &mvccpb.KeyValue{ModRevision: 5}}}},
		{Header: at(4)}, // too old
		{Header: at(5)},
		{Header: at(3), Canceled: true},
	} {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{1, 2, 6, 5, 3}; !slices.Equal(to.revisions, want) {
		t.Errorf("%v was sent, want %v", to.revisions, want)
	}
}

// TestOthersWatchesTellTheValueBefore: a watch of a database elsewhere asks for it where kine leaves it out. A change is sent in any case.
func TestOthersWatchesTellTheValueBefore(t *testing.T) {
	before := &mvccpb.KeyValue{Key: []byte("/key"), ModRevision: 3, Value: []byte("before")}
	kines := &mvccpb.KeyValue{Key: []byte("/key"), ModRevision: 4, Value: []byte("kine's")}
	changed := &mvccpb.KeyValue{Key: []byte("/key"), CreateRevision: 3, ModRevision: 9}
	for what, c := range map[string]struct {
		event *mvccpb.Event
		err   error // of a read
		asked int64
		want  *mvccpb.KeyValue
	}{
		"a change":                  {&mvccpb.Event{Kv: changed}, nil, 8, before},
		"a deletion":                {&mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("/key"), CreateRevision: 9, ModRevision: 9}}, nil, 8, before},
		"a creation":                {&mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("/key"), CreateRevision: 9, ModRevision: 9}}, nil, 0, nil},
		"a change that tells it":    {&mvccpb.Event{Kv: changed, PrevKv: kines}, nil, 0, kines},
		"what really was compacted": {&mvccpb.Event{Kv: changed}, server.ErrCompacted, 8, nil},
		"a database that is down":   {&mvccpb.Event{Kv: changed}, errors.New("connection refused"), 8, nil},
	} {
		t.Run(what, func(t *testing.T) {
			to, asked := &sink{}, int64(0)
			s := &sharedStream{Watch_WatchServer: to, get: func(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
				if _, bounded := ctx.Deadline(); !bounded {
					t.Error("a read may take for ever")
				}
				if asked = r.Revision; string(r.Key) != "/key" || len(r.RangeEnd) > 0 {
					t.Errorf("%v is asked for", r)
				}
				return &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{before}}, c.err
			}}
			err := s.Send(&etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 9}, Events: []*mvccpb.Event{c.event}})
			if err != nil || len(to.events) != 1 || to.events[0].PrevKv != c.want {
				t.Errorf("%v is sent, %v", to.events, err)
			}
			if asked != c.asked {
				t.Errorf("revision %d is asked for, want %d", asked, c.asked)
			}
		})
	}
}
