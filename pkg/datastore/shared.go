package datastore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/k3s-io/kine/pkg/server"
)

// furthestBehind is how many changes a watch of a database elsewhere may have to catch up with. kine's backends since
// v0.17 read all of them, those of other keys too, with their values, at once. A watch from further back is answered as
// if that had been compacted: its client lists again.
const furthestBehind = 5000

// shared is kine's backend for a database elsewhere.
type shared struct {
	server.Backend
}

// CurrentRevision asks the database. kine v0.17.5 keeps what it has written last, which stays behind when two writes
// end at the same time, and then when other servers write.
func (s shared) CurrentRevision(ctx context.Context) (int64, error) {
	revision, _, err := s.Get(ctx, server.HealthKey, 0, true)
	return revision, err
}

// errNotFound is the answer to a creation that cannot be found afterwards.
var errNotFound = errors.New("the key is not there any more, or not yet: at which revision it was created, if it was, is unknown")

// Create asks for the revision that the key was created at. If the key had existed before, kine v0.17.5 returns the revision of any write
// by then, an earlier one too, so that a change based on it would fail; and if a compaction takes the key's deletion away at the same
// time, it writes nothing, and returns no error.
func (s shared) Create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	rev, err := s.Backend.Create(ctx, key, value, lease)
	if err != nil {
		return rev, err
	}
	_, kv, err := s.Get(ctx, key, 0, false)
	if err != nil {
		return 0, err
	}
	candidates := []int64{rev}
	if kv != nil {
		candidates = []int64{kv.CreateRevision, rev}
	}
	for _, at := range candidates {
		if kv == nil || kv.ModRevision != at { // it has been changed or deleted since, and perhaps made anew
			if _, kv, err = s.Get(ctx, key, at, false); err != nil {
				return 0, err
			}
		}
		if kv != nil && kv.ModRevision == at && kv.CreateRevision == at && bytes.Equal(kv.Value, value) {
			return at, nil
		}
	}
	return 0, errNotFound
}

func (s shared) Delete(ctx context.Context, key string, revision int64) (int64, *server.KeyValue, bool, error) {
	rev, kv, deleted, err := s.Backend.Delete(ctx, key, revision)
	return rev, kv, deleted && !absent(kv, revision), err
}

// List is made of ListStream, which asks the rows for their error: kine v0.17.5 takes a list that breaks off half-way for
// its end otherwise.
func (s shared) List(ctx context.Context, key, end string, limit, revision int64, keysOnly bool) (int64, []*server.KeyValue, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := s.ListStream(ctx, key, end, limit, revision, keysOnly)
	var kvs []*server.KeyValue
	for kv := range list.KVc {
		kvs = append(kvs, kv)
	}
	if err := <-list.Errorc; err != nil {
		return list.CurrentRevision, nil, err
	}
	return list.CurrentRevision, kvs, nil
}

func (s shared) Watch(ctx context.Context, revision int64) server.WatchResult {
	current, err := s.CurrentRevision(ctx)
	if err == nil && revision > 0 && revision < current-furthestBehind {
		return server.WatchResult{CurrentRevision: current, CompactRevision: current - furthestBehind}
	}
	w := s.Backend.Watch(ctx, revision)
	w.Eventc = apart(ctx, w.Eventc)
	return w
}

// apart passes batches on until the watch ends, each without room behind its events. kine v0.17.5 gives one batch to all
// watches, and each watch appends the next batch to it: if there were room, one would overwrite what another is about to send.
func apart(ctx context.Context, batches <-chan server.EventBatch) <-chan server.EventBatch {
	clipped := make(chan server.EventBatch)
	go func() {
		defer close(clipped)
		for {
			select {
			case b, more := <-batches:
				if !more {
					return
				}
				b.Events = slices.Clip(b.Events)
				select {
				case clipped <- b:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return clipped
}
