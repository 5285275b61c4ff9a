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

// errNotFound is the answer to a creation that cannot be found afterwards. kine v0.17.5 drops the error of a creation that fails, and reports
// success, if there never was such a key.
var errNotFound = &trouble{kind: unavailable, err: errors.New("the object is not there after its creation: the database has not taken it, or it was deleted at once. " +
	"Look whether the database has room, is no replica, and whether its user may write; then try again")}

// errNotTaken is the answer to a write after which the key is as it was. kine v0.17.5 drops the error of a write that fails and answers
// that another one was faster, which the API server tries again at once until the request ends.
var errNotTaken = &trouble{kind: unavailable, err: errors.New("it has not taken the write, and its own log may say why: " +
	"look whether it has room, is no replica, and whether its user may write")}

// attempts is how often a write is tried that the database does not take. One that the database ends because of another write, as MySQL
// does to resolve a deadlock, succeeds or finds what the other one has written when it is tried again.
const attempts = 2

// Create asks for the revision that the key was created at. If the key had existed before, kine v0.17.5 returns the revision of any write
// by then, an earlier one too, so that a change based on it would fail; and if a compaction takes the key's deletion away at the same
// time, it writes nothing, and returns no error.
func (s shared) Create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	rev, err := s.create(ctx, key, value, lease)
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

// create does what kine's does, but returns that the key exists only if it does. kine v0.17.5 says so of each failed creation of a key
// that has been deleted.
func (s shared) create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	for range attempts {
		rev, err := s.Backend.Create(ctx, key, value, lease)
		if !errors.Is(err, server.ErrKeyExists) {
			return rev, err
		}
		_, kv, unread := s.Get(ctx, key, 0, true)
		if unread != nil {
			return 0, unread
		}
		if kv != nil {
			return rev, err
		}
	}
	return 0, errNotTaken
}

func (s shared) Update(ctx context.Context, key string, value []byte, revision, lease int64) (int64, *server.KeyValue, bool, error) {
	return taken(revision, func() (int64, *server.KeyValue, bool, error) {
		return s.Backend.Update(ctx, key, value, revision, lease)
	})
}

func (s shared) Delete(ctx context.Context, key string, revision int64) (int64, *server.KeyValue, bool, error) {
	rev, kv, deleted, err := taken(revision, func() (int64, *server.KeyValue, bool, error) {
		return s.Backend.Delete(ctx, key, revision)
	})
	return rev, kv, deleted && !absent(kv, revision), err
}

// taken makes a write of a key that is to have a revision, and returns an error if the key still has it afterwards. If another write had
// been faster, it would have a later one, or be gone.
func taken(revision int64, write func() (int64, *server.KeyValue, bool, error)) (int64, *server.KeyValue, bool, error) {
	for range attempts {
		rev, kv, done, err := write()
		if err != nil || done || kv == nil || kv.ModRevision != revision {
			return rev, kv, done, err
		}
	}
	return 0, nil, false, errNotTaken
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
