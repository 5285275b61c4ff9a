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
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/observe"
)

const (
	// firstSync bounds how long the workers wait for the first lists. A resource
	// that is slow does not hold up the others; what is not observed by then is
	// read live.
	firstSync = 30 * time.Second
	// stopGrace is how long calls under way may take once the collector is to end.
	stopGrace = time.Second
	// reportAfter is how long the first lists may take before the log says so.
	reportAfter = 2 * time.Second
)

// ErrStoreWentBack ends Run when the store has lost commits that had been seen.
var ErrStoreWentBack = observe.ErrStoreWentBack

// MonitorState is what there is to say about the monitor of one resource.
type MonitorState = observe.MonitorState

// MonitorFailing is the state of a monitor whose resource cannot be listed or watched.
const MonitorFailing = observe.Failing

// Options says how the collector runs.
type Options struct {
	// Config reaches the API server. The collector sets no rate limit of its own.
	Config *rest.Config
	// Workers is the size of the pool; 0 chooses by the number of cores.
	Workers int
	// Ignore names resources that are not watched and so never collected.
	Ignore []schema.GroupResource
	// Resync is the interval between sweeps; 0 is never.
	Resync time.Duration
	// OrphanTimeout bounds how long an orphaning deletion waits for a resource that
	// cannot be read; 0 is for ever.
	OrphanTimeout time.Duration
	// SyncTimeout bounds foreground deletions.
	SyncTimeout Timeout
	// Check is how often the graph's invariants are verified; 0 is never. It takes time
	// linear in all objects, during which no event is taken in.
	Check time.Duration
	// NoCycleDetection leaves rings of objects in foreground deletion as they are.
	NoCycleDetection bool
	Log              *logrus.Entry
}

// Collector collects. Make one for each time it is to run.
type Collector struct {
	graph          *graph.Graph
	observer       *observe.Observer
	actor          *act.Actor
	queue          *queue // attempts to delete
	orphans        *queue // attempts to orphan
	gate           *gate
	reads          reads
	search         search
	orphaned       orphaned
	stuck          stuck
	deadlines      deadlines
	config         *rest.Config
	events         *act.Events // while Run runs
	warned         warned
	active         atomic.Int64 // attempts under way
	deleted        atomic.Int64 // objects, since the start
	began          time.Time
	collected      collected
	workers        int
	orphanTimeout  time.Duration
	check          time.Duration
	cycleDetection bool
	log            *logrus.Entry
	now            func() time.Time
	// settled says whether every resource that can be read has been listed.
	settled func() bool
}

// New prepares a collector; Run runs it.
func New(o Options) (*Collector, error) {
	client, err := metadata.NewForConfig(metadata.ConfigFor(o.Config))
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	objects, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	registerMetrics()
	c := &Collector{
		graph:          graph.New(),
		config:         o.Config,
		workers:        workers(o.Workers),
		orphanTimeout:  o.OrphanTimeout,
		check:          o.Check,
		cycleDetection: !o.NoCycleDetection,
		log:            o.Log,
		now:            time.Now,
		began:          time.Now(),
	}
	clock := func() time.Time { return c.now() } // which tests replace
	c.queue = newQueue(deleteQueue, c.graph.Namespace, clock)
	c.orphans = newQueue(orphanQueue, c.graph.Namespace, clock)
	c.gate = newGate(clock, o.Log)
	c.actor = act.New(client, objects, c.gate.allow, countCall)
	c.observer, err = observe.New(observe.Options{
		Config: o.Config, Graph: c.graph, Enqueue: c.consider, Ignore: o.Ignore,
		SweepEvery: o.Resync, SyncError: countSyncError, Began: c.collected.begin, Ended: c.collected.end, Log: o.Log,
		Read: c.readForObserver,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	c.settled = func() bool { _, synced := c.graph.Synced(); return synced }
	c.deadlines = deadlines{timeout: o.SyncTimeout, graph: c.graph, paused: c.gate.pausedSince}
	return c, nil
}

// readForObserver reads an object live.
func (c *Collector) readForObserver(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (string, bool, error) {
	live, outcome, err := c.actor.Read(ctx, gvr, namespace, name)
	if err != nil || outcome == act.Gone || live.Metadata.UID != uid {
		return "", false, err
	}
	return live.Metadata.ResourceVersion, true, nil
}

// workers returns the size of the pool. The store takes one write at a time: more
// workers than this only hide the time between a request and its commit.
func workers(want int) int {
	if want > 0 {
		return want
	}
	return min(4*runtime.GOMAXPROCS(0), 20)
}

// Graph returns what the collector knows, for reports and tests. Whoever changes it
// breaks the collector.
func (c *Collector) Graph() *graph.Graph { return c.graph }

// Monitors returns the state of each resource's monitor, in the order of their names.
func (c *Collector) Monitors() []MonitorState { return c.observer.States() }

// Unlistable names the resources that cannot be listed or watched at the moment.
func (c *Collector) Unlistable() []string {
	var names []string
	for _, m := range c.observer.States() {
		if m.State == observe.Failing {
			names = append(names, m.Resource.GroupResource().String())
		}
	}
	return names
}

// Undiscovered names the API groups whose resources cannot be discovered at the
// moment.
func (c *Collector) Undiscovered() []string { return c.observer.Undiscovered() }

// Run collects until ctx ends, then finishes the calls under way, abandons those
// that take longer than stopGrace, and returns when every goroutine has ended.
// started, if not nil, is called once the first lists are in the graph and the
// workers run. After ErrStoreWentBack nothing that the collector knew holds: make a
// new one and run that.
func (c *Collector) Run(ctx context.Context, started func()) error {
	current.Store(c)
	defer current.CompareAndSwap(c, nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	events, err := act.NewEvents(calls, c.config)
	if err != nil {
		return fmt.Errorf("preparing events: %w", err)
	}
	defer events.Stop()
	c.events = events
	maps, err := typedcorev1.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("preparing the pause: %w", err)
	}

	var observing, working sync.WaitGroup
	defer observing.Wait()
	observing.Go(func() { cancel(c.observer.Run(ctx, cancel)) })
	observing.Go(func() {
		if err := c.gate.follow(ctx, maps); err != nil {
			cancel(err)
		}
	})
	if c.waitForFirstLists(ctx) {
		c.deadlines.synced(c.now())
		s := c.graph.Stats()
		c.log.WithFields(logrus.Fields{"workers": c.workers, "objects": s.Nodes, "references": s.Edges}).Info("collector is running")
		for range c.workers {
			working.Go(func() { c.work(ctx, calls, c.queue, c.attemptToDelete) })
		}
		for range orphaners {
			working.Go(func() {
				c.work(ctx, calls, c.orphans, func(ctx context.Context, k graph.Key) (time.Time, error) {
					return time.Time{}, c.attemptToOrphan(ctx, k)
				})
			})
		}
		working.Go(func() { c.followWaits(ctx) })
		if c.cycleDetection {
			working.Go(func() { c.breakCycles(ctx, calls) })
		}
		if c.check > 0 {
			working.Go(func() { c.checks(ctx) })
		}
		if started != nil {
			started()
		}
		<-ctx.Done()
	}
	c.queue.ShutDown()
	c.orphans.ShutDown()
	if errors.Is(context.Cause(ctx), ErrStoreWentBack) {
		abandon() // what is being written was decided on what no longer holds
	}
	late := time.AfterFunc(stopGrace, abandon)
	defer late.Stop()
	working.Wait()
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
		return c.settled(), nil
	})
	if err != nil && ctx.Err() == nil {
		c.log.WithField("syncing", c.observer.Monitors().Syncing).Warn("collector starts though some resources have not been listed yet; it reads their objects one by one")
	}
	return ctx.Err() == nil
}

// checks verifies the graph's invariants until ctx ends. What is wrong is logged as
// an error; the collector goes on, since every write has evidence and preconditions
// of its own.
func (c *Collector) checks(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := c.graph.Check(); err != nil {
			c.log.WithError(err).Error("the graph is broken")
		}
	}, c.check)
}

// consider puts objects into the queue.
func (c *Collector) consider(keys []graph.Key) {
	for _, k := range keys {
		c.queue.Add(k)
	}
}

// attemptFunc works on one object and says when to come back without being asked;
// the zero time for never.
type attemptFunc func(context.Context, graph.Key) (again time.Time, err error)

// work is one worker. It takes work until ctx ends, and none while the collector is
// paused; what it has begun goes on with calls.
func (c *Collector) work(ctx, calls context.Context, queue *queue, attempt attemptFunc) {
	for c.gate.wait(ctx) {
		k, shutdown := queue.Get()
		if shutdown {
			return
		}
		if c.gate.allow() != nil {
			queue.Add(k) // the pause has begun meanwhile
		} else {
			c.active.Add(1)
			c.workOn(calls, queue, attempt, k)
			c.active.Add(-1)
		}
		queue.Done(k)
	}
}

func (c *Collector) workOn(ctx context.Context, queue *queue, attempt attemptFunc, k graph.Key) {
	again, err := attempt(ctx, k)
	switch {
	case errors.Is(err, act.ErrPaused):
		queue.Add(k) // no worker takes it before the pause ends
	case errors.Is(err, errPutAside):
	case err != nil && ctx.Err() == nil:
		c.logFailure(k, queue.retry(k, err), err)
	case err == nil:
		queue.succeeded(k)
		if !again.IsZero() {
			queue.AddAfter(k, again.Sub(c.now()))
		}
	}
}

// logFailure warns when an object has failed a few times, and when that lasts.
func (c *Collector) logFailure(k graph.Key, failures int, err error) {
	log := c.log.WithError(err).WithFields(logrus.Fields{"resource": k.Resource.String(), "uid": string(k.UID), "failures": failures})
	const message = "cannot finish with an object; keeping it and trying again"
	if failures == 3 || failures == 10 {
		log.Warn(message)
	} else {
		log.Debug(message)
	}
}
