package datastore

import (
	"context"
	"errors"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// sharedStream mends what kine v0.17.5 sends to watches of a database elsewhere. kine sends one answer at a time.
type sharedStream struct {
	etcdserverpb.Watch_WatchServer
	get  func(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error)
	sent int64 // the revision of the last change
}

// Send leaves out what a watch is told of its progress if it has been sent a newer change: kine asks for the revision, and may send
// changes before it tells it. Changes are sent with the value before.
func (s *sharedStream) Send(r *etcdserverpb.WatchResponse) error {
	if n := len(r.Events); n > 0 {
		s.sent = max(s.sent, r.Events[n-1].Kv.ModRevision)
	} else if !r.Created && !r.Canceled && r.Header.Revision < s.sent {
		return nil
	}
	for _, e := range r.Events {
		if err := s.tellBefore(e); err != nil {
			return err
		}
	}
	return s.Watch_WatchServer.Send(r)
}

// tellBefore adds the value before a change. kine leaves that out if it was written before the compacted revision, even if it was the
// key's value at that revision. The API server ends a watch that lacks it. Where it really was compacted it stays out.
func (s *sharedStream) tellBefore(e *mvccpb.Event) error {
	created := e.Type == mvccpb.PUT && e.Kv.CreateRevision == e.Kv.ModRevision
	if created || e.PrevKv != nil {
		return nil
	}
	before, err := s.get(s.Context(), &etcdserverpb.RangeRequest{Key: e.Kv.Key, Revision: e.Kv.ModRevision - 1})
	if errors.Is(err, server.ErrCompacted) {
		return nil
	}
	if err == nil && len(before.Kvs) > 0 {
		e.PrevKv = before.Kvs[0]
	}
	return err
}
