package datastore

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// sharedStream mends what kine v0.17.5 sends to watches of a database elsewhere. kine sends one answer at a time.
type sharedStream struct {
	etcdserverpb.Watch_WatchServer
	get  func(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error)
	sent int64 // the revision of the last change
}

// beforeWithin is how long a change waits for the values before it to be read. kine's other watches wait with it.
const beforeWithin = 5 * time.Second

// Send leaves out what a watch is told of its progress if it has been sent a newer change: kine asks for the revision, and may send
// changes before it tells it. Changes are sent with the value before.
//
// It must not fail while the stream lives: kine takes what it has handed over for sent, and would tell the watch of that progress.
func (s *sharedStream) Send(r *etcdserverpb.WatchResponse) error {
	if n := len(r.Events); n > 0 {
		s.sent = max(s.sent, r.Events[n-1].Kv.ModRevision)
	} else if !r.Created && !r.Canceled && r.Header.Revision < s.sent {
		return nil
	}
	hideReason(r)
	ctx, cancel := context.WithTimeout(s.Context(), beforeWithin)
	defer cancel()
	for _, e := range r.Events {
		s.tellBefore(ctx, e)
	}
	return s.Watch_WatchServer.Send(r)
}

// tellBefore adds the value before a change. kine leaves that out if it was written before the compacted revision, even if it was the
// key's value at that revision. Where it was compacted, or cannot be read, it stays out: the API server ends a watch at such a change
// and begins again behind the one before.
func (s *sharedStream) tellBefore(ctx context.Context, e *mvccpb.Event) {
	created := e.Type == mvccpb.PUT && e.Kv.CreateRevision == e.Kv.ModRevision
	if created || e.PrevKv != nil {
		return
	}
	before, err := s.get(ctx, &etcdserverpb.RangeRequest{Key: e.Kv.Key, Revision: e.Kv.ModRevision - 1})
	if err == nil && len(before.Kvs) > 0 {
		e.PrevKv = before.Kvs[0]
	}
}
