package elect

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/reap-dev/reap/pkg/bound"
)

// term is the lock of one term. It remembers when the lease was last renewed.
type term struct {
	resourcelock.Interface
	began   atomic.Bool               // the lease has been held
	ended   atomic.Bool               // the work has returned: nothing that it sent is under way
	renewed atomic.Pointer[time.Time] // when the last renewal was sent; nil while the lease is not held
}

func (t *term) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.hold(ctx, r, t.Interface.Create)
}

// errWorking is the error of a release that comes too early.
var errWorking = errors.New("the leader's work has not ended: the lease is left to expire")

// Update renews the lease, or releases it if the record names no holder. client-go releases a lease as soon as it could
// not renew it. Then a write of the work may be under way, and another leader would write beside it.
func (t *term) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		if !t.ended.Load() {
			return errWorking
		}
		// Before the request is sent: once the server has received it, another process may lead.
		t.renewed.Store(nil)
		return t.Interface.Update(ctx, r)
	}
	return t.hold(ctx, r, t.Interface.Update)
}

func (t *term) hold(ctx context.Context, r resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := time.Now()
	err := write(ctx, r)
	if err == nil {
		t.began.Store(true)
		t.renewed.Store(&sent)
	}
	return err
}

// remaining returns how long no other process can lead. It counts from when the last
// renewal was sent, so other candidates never assume a shorter time.
func (t *term) remaining() time.Duration {
	renewed := t.renewed.Load()
	if renewed == nil {
		return 0
	}
	return leaseDuration - time.Since(*renewed)
}

// errLeaseOver is the error of a write that would outlast the lease.
var errLeaseOver = errors.New("the lease is over: another process may lead")

// fence gives every write through the configuration a deadline within the lease, and
// refuses writes once the lease is over.
func (t *term) fence(c *rest.Config) *rest.Config {
	return bound.Writes(c, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		left := t.remaining()
		if left <= 0 {
			return nil, nil, errLeaseOver
		}
		ctx, cancel := context.WithTimeoutCause(ctx, left, errLeaseOver)
		return ctx, cancel, nil
	})
}
