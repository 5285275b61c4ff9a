package datastore

import (
	"context"
	"slices"
	"testing"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// leased answers a deletion.
type leased struct {
	server.Backend
	kv      *server.KeyValue
	deleted bool
}

func (l leased) Delete(context.Context, string, int64) (int64, *server.KeyValue, bool, error) {
	return 10, l.kv, l.deleted, nil
}

// TestKeyWithANewLeaseIsLookedAtAgain: kine forgets a key whose deletion returns no error.
func TestKeyWithANewLeaseIsLookedAtAgain(t *testing.T) {
	for what, c := range map[string]struct {
		backend leased
		again   bool
	}{
		"deleted":                       {leased{kv: &server.KeyValue{Lease: 5}, deleted: true}, false},
		"deleted by somebody else":      {leased{}, false},
		"written again with a lease":    {leased{kv: &server.KeyValue{Lease: 5}}, true},
		"written again without a lease": {leased{kv: &server.KeyValue{}}, false},
	} {
		if _, _, _, err := (expiring{c.backend}).Delete(t.Context(), "/key", 5); (err != nil) != c.again {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// sink keeps the revisions of what is sent to it.
type sink struct {
	etcdserverpb.Watch_WatchServer
	revisions []int64
}

func (s *sink) Send(r *etcdserverpb.WatchResponse) error {
	s.revisions = append(s.revisions, r.Header.Revision)
	return nil
}

// TestProgressOfOthersWatchesDoesNotGoBack: it is left out if a newer change has been sent.
func TestProgressOfOthersWatchesDoesNotGoBack(t *testing.T) {
	to := &sink{}
	s := &inOrder{Watch_WatchServer: to}
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
