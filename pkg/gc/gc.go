// Package gc is the ownership garbage collector: it deletes what nothing owns
// any more, as Kubernetes defines it.
//
//	observe ──events──▶ graph ──view──▶ decide ──decision──▶ act ──▶ API server
//	                      └──keys──▶ queue ──▶ workers ──▲
//
// It promises that an object is deleted only on proof that every owner it names
// does not exist, and only as the very version that the proof was judged with. It
// does not promise an order, nor that an object whose owners cannot be read is
// ever collected.
package gc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/observe"
)

const (
	// firstSync bounds how long the workers wait for the first lists. A resource
	// that is slow does not hold up the others; what is not observed by then is
	// read live.
	firstSync = 30 * time.Second
	// retryAtLeast and retryAtMost bound the delay after a failure, which doubles
	// for each further one of the same object.
	retryAtLeast = 10 * time.Millisecond
	retryAtMost  = time.Minute
	// reportAfter is how long the first lists may take before the log says so.
	reportAfter = 2 * time.Second
)

// Options says how the collector runs.
type Options struct {
	// Config reaches the API server. The collector sets no rate limit of its own.
	Config *rest.Config
	// Workers is the size of the pool; 0 chooses by the number of cores.
	Workers int
	// Ignore names resources that are not watched and so never collected.
	Ignore []schema.GroupResource
	Log    *logrus.Entry
}

// Collector collects. Make one for each time it is to run.
type Collector struct {
	graph    *graph.Graph
	observer *observe.Observer
	actor    *act.Actor
	queue    workqueue.TypedRateLimitingInterface[graph.Key]
	verify   singleflight.Group
	workers  int
	log      *logrus.Entry
	now      func() time.Time
}

// New prepares a collector; Run runs it.
func New(o Options) (*Collector, error) {
	client, err := metadata.NewForConfig(metadata.ConfigFor(o.Config))
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	registerMetrics()
	c := &Collector{
		graph:   graph.New(),
		actor:   act.New(client, countCall),
		workers: workers(o.Workers),
		log:     o.Log,
		now:     time.Now,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[graph.Key](retryAtLeast, retryAtMost),
			workqueue.TypedRateLimitingQueueConfig[graph.Key]{Name: "garbage_collector_attempt_to_delete"},
		),
	}
	c.observer, err = observe.New(observe.Options{
		Config: o.Config, Graph: c.graph, Consider: c.consider, Ignore: o.Ignore, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	return c, nil
}

// workers returns the size of the pool. The store takes one write at a time: more
// workers than this only hide the time between a request and its commit.
func workers(want int) int {
	if want > 0 {
		return want
	}
	return min(4*runtime.GOMAXPROCS(0), 20)
}

// Run collects until ctx ends, then finishes or abandons the calls under way and
// returns when every goroutine has ended. started, if not nil, is called once
// the first lists are in the graph and the workers run.
func (c *Collector) Run(ctx context.Context, started func()) error {
	current.Store(c)
	defer current.CompareAndSwap(c, nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown()

	wg.Go(func() { cancel(c.observer.Run(ctx)) })
	if !c.waitForFirstLists(ctx) {
		return runError(ctx)
	}
	s := c.graph.Stats()
	c.log.WithFields(logrus.Fields{"workers": c.workers, "objects": s.Nodes, "references": s.Edges}).Info("collector is running")
	for range c.workers {
		wg.Go(func() { c.work(ctx) })
	}
	if started != nil {
		started()
	}
	<-ctx.Done()
	return runError(ctx)
}

// runError is nil when the collector was asked to end.
func runError(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// waitForFirstLists returns false if ctx ended first.
func (c *Collector) waitForFirstLists(ctx context.Context) bool {
	report := time.AfterFunc(reportAfter, func() {
		m := c.observer.Monitors()
		c.log.WithFields(logrus.Fields{"synced": m.Synced, "syncing": m.Syncing, "failing": m.Failing}).Info("collector is reading what exists")
	})
	defer report.Stop()
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, firstSync, true, func(context.Context) (bool, error) {
		return c.observer.Settled(), nil
	})
	if err != nil && ctx.Err() == nil {
		c.log.WithField("syncing", c.observer.Monitors().Syncing).Warn("collector starts though some resources have not been listed yet; it reads their objects one by one")
	}
	return ctx.Err() == nil
}

// consider puts objects into the queue.
func (c *Collector) consider(keys []graph.Key) {
	for _, k := range keys {
		c.queue.Add(k)
	}
}

// work is one worker.
func (c *Collector) work(ctx context.Context) {
	for {
		k, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.attemptAndReschedule(ctx, k)
	}
}

func (c *Collector) attemptAndReschedule(ctx context.Context, k graph.Key) {
	defer c.queue.Done(k)
	if ctx.Err() != nil {
		return // the queue is being emptied
	}
	again, err := c.attemptToDelete(ctx, k)
	switch {
	case err != nil && ctx.Err() == nil:
		c.queue.AddRateLimited(k)
		c.logFailure(k, err)
	case err == nil:
		c.queue.Forget(k)
		if !again.IsZero() {
			c.queue.AddAfter(k, again.Sub(c.now()))
		}
	}
}

// logFailure warns at the first failure of an object and when it lasts, not each
// time.
func (c *Collector) logFailure(k graph.Key, err error) {
	log := c.log.WithError(err).WithField("resource", k.Resource.String()).WithField("uid", string(k.UID))
	switch n := c.queue.NumRequeues(k); n {
	case 2, 10:
		log.WithField("failures", n).Warn("cannot decide about an object; keeping it and trying again")
	default:
		log.WithField("failures", n).Debug("cannot decide about an object; keeping it and trying again")
	}
}
