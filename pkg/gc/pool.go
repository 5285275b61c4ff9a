package gc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// pool is workers that take objects from a queue.
type pool struct {
	queue *queue
	gate  *gate
	// attempt works on one object and says when to come back without being asked; the
	// zero time for never.
	attempt func(context.Context, graph.Key) (again time.Time, err error)
	now     func() time.Time
	log     *logrus.Entry
	failing failures
	active  atomic.Int64 // attempts under way
}

// work is one worker. It takes work until ctx ends, and none while the collector is
// paused; calls bounds what it has begun.
func (p *pool) work(ctx, calls context.Context) {
	for p.gate.wait(ctx) {
		k, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if p.gate.allow() != nil {
			p.queue.Add(k) // the pause has begun meanwhile
		} else {
			p.active.Add(1)
			p.workOn(calls, k)
			p.active.Add(-1)
		}
		p.queue.Done(k)
	}
}

func (p *pool) workOn(ctx context.Context, k graph.Key) {
	again, err := p.attempt(ctx, k)
	switch {
	case errors.Is(err, act.ErrPaused), errors.Is(err, errTurnOver):
		p.queue.Add(k) // in a pause no worker takes it before that ends
	case errors.Is(err, errPutAside):
	case err != nil && ctx.Err() == nil:
		times := p.queue.retry(k, err)
		namespace, _ := p.queue.lanes.shape(k)
		p.failing.failed(k, namespace, times, err, p.now())
		p.logFailure(k, times, err)
	case err == nil:
		p.queue.succeeded(k)
		p.failing.forget(k)
		if !again.IsZero() {
			p.queue.AddAfter(k, again.Sub(p.now()))
		}
	}
}

// logFailure warns when an object has failed a few times, and when that lasts.
func (p *pool) logFailure(k graph.Key, failures int, err error) {
	log := p.log.WithError(err).WithFields(logrus.Fields{"resource": k.Resource.String(), "uid": string(k.UID), "failures": failures})
	const message = "processing object failed; will retry"
	if failures == 3 || failures == 10 {
		log.Warn(message)
	} else {
		log.Debug(message)
	}
}
