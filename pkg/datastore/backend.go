package datastore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/server"
	"github.com/k3s-io/kine/pkg/ttl"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/pkg/datastore/watch"
)

// backend is kine's, but for writes that fail: they are errors. kine v0.17.5 answers a failed update or deletion as
// if somebody else had been faster.
type backend struct {
	*logstructured.LogStructured
	log     logstructured.Log
	watches *watch.Hub
	counts  *counter

	end     context.CancelFunc // of what Start has started; nil before
	running sync.WaitGroup
}

var _ server.Backend = (*backend)(nil)

// Start does what LogStructured's does. What expires has to be deleted through this backend: kine's forgets a key
// whose deletion fails until the next start.
func (b *backend) Start(ctx context.Context) error {
	if err := b.log.Start(ctx); err != nil {
		return err
	}
	if _, err := b.Create(ctx, server.HealthKey, []byte(server.HealthVal), 0); err != nil && !errors.Is(err, server.ErrKeyExists) {
		logrus.WithError(err).Warn("cannot write the key that health checks read")
	}
	ctx, b.end = context.WithCancel(ctx)
	b.running.Go(func() { b.expire(ctx) })
	b.running.Go(func() { b.watches.Run(ctx) })
	return nil
}

// stop ends what Start has started, while the database is still open: kine's parts take a closed one for a failure.
func (b *backend) stop() {
	if b.end != nil {
		b.end()
	}
	b.running.Wait()
}

// expireAgainAfter is how long keys do not expire after a failure.
const expireAgainAfter = time.Second

// expire deletes keys whose lease has run out, until ctx ends. kine v0.17.5 stops for good when its watch ends, as that of a reader that
// is too slow does, or cannot begin. Each run reads all keys anew, and their leases begin again. An earlier run may still delete
// keys, each only at the revision that it has seen.
func (b *backend) expire(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ttl.Run(ctx, expiring{b, logstructured.New(followed{b.log})})
	}, expireAgainAfter)
}

// expiring is the backend through which keys expire.
type expiring struct {
	server.Backend
	watched *logstructured.LogStructured
}

// Watch ends if the log cannot be followed.
func (e expiring) Watch(ctx context.Context, revision int64) server.WatchResult {
	return e.watched.Watch(ctx, revision)
}

// followed is a log whose changes end at once if it cannot be followed. kine v0.17.5 would wait for ever: there is no channel then.
type followed struct{ logstructured.Log }

func (f followed) Watch(ctx context.Context) <-chan server.EventBatch {
	if changes := f.Log.Watch(ctx); changes != nil {
		return changes
	}
	none := make(chan server.EventBatch)
	close(none)
	return none
}

var errNewLease = errors.New("the key has a new lease")

// Delete returns an error if the key has a new lease: kine v0.17.5 would forget the key together with the old one, and it would never
// expire. After an error it looks again.
//
// A key that must not expire stays. Without an error it is not looked at again.
func (e expiring) Delete(ctx context.Context, key string, revision int64) (int64, *server.KeyValue, bool, error) {
	if !mayExpire(key) {
		return 0, nil, false, nil
	}
	rev, kv, deleted, err := e.Backend.Delete(ctx, key, revision)
	if err == nil && !deleted && kv != nil && kv.Lease > 0 {
		err = errNewLease
	}
	return rev, kv, deleted, err
}

// Create returns the revision that the key was created at. kine v0.17.5 returns the newest one by then if the key had existed
// before, so that a change based on it would fail.
func (b *backend) Create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	for range 3 {
		ctx, c := withCall(ctx)
		rev, err := b.LogStructured.Create(ctx, key, value, lease)
		if err = c.or(err); err != nil {
			return rev, err
		}
		if c.appended > 0 {
			return c.appended, nil
		}
		// kine has found the key's deletion first, and then, as it was compacted meanwhile, nothing: it takes that for a success.
	}
	return 0, &trouble{kind: unavailable, err: errNotStored}
}

func (b *backend) Update(ctx context.Context, key string, value []byte, revision, lease int64) (int64, *server.KeyValue, bool, error) {
	ctx, c := withCall(ctx)
	rev, kv, updated, err := b.LogStructured.Update(ctx, key, value, revision, lease)
	if err := c.or(err); err != nil {
		return rev, nil, false, err
	}
	return rev, kv, updated, nil
}

func (b *backend) Delete(ctx context.Context, key string, revision int64) (int64, *server.KeyValue, bool, error) {
	ctx, c := withCall(ctx)
	rev, kv, deleted, err := b.LogStructured.Delete(ctx, key, revision)
	if err := c.or(err); err != nil {
		return rev, nil, false, err
	}
	return rev, kv, deleted && !absent(kv, revision), nil
}

// Count does what LogStructured's does, and reads less for the pages of a list.
func (b *backend) Count(ctx context.Context, key, end string, revision int64) (current, keys int64, err error) {
	return b.counts.Count(ctx, key, end, revision)
}

// absent reports whether kine v0.17.5 takes a deletion for done because there is no such key, not even a deleted one. That is no success
// if the key had to be as it was at a revision.
func absent(kv *server.KeyValue, revision int64) bool { return kv == nil && revision != 0 }
