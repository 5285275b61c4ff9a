// Package gc is the ownership garbage collector: it deletes objects whose owners are all gone, as
// Kubernetes defines it.
//
//	observe ──events──▶ graph ──view──▶ decide ──decision──▶ act ──▶ API server
//	                      └──keys──▶ queue ──▶ workers ──▲
//
// It deletes an object only on proof that none of the owners it names exists, and only in the
// version that the decision was made on. It promises neither an order nor that an object whose
// owners cannot be read is ever collected.
package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/observe"
)

const (
	// firstSync bounds how long the workers wait for the first lists. A slow resource does
	// not hold up the others; objects that are not observed by then are read live.
	firstSync = 30 * time.Second
	// stopGrace is how long calls under way may take after the collector was asked to stop.
	stopGrace = time.Second
	// afterSync is how long after the first lists no deadline fires: by then the process
	// knows what happened before it started.
	afterSync = 30 * time.Second
	// reportAfter is how long the first lists may take before the log says so.
	reportAfter = 2 * time.Second
)

// ErrStoreWentBack ends a collector when the store has lost commits that had been seen.
var ErrStoreWentBack = observe.ErrStoreWentBack

// MonitorState is the state of the monitor of one resource.
type MonitorState = observe.MonitorState

// MonitorFailing is the state of a monitor whose resource cannot be listed or watched.
const MonitorFailing = observe.Failing

// Timeout bounds how long a foreground deletion waits without progress.
type Timeout = decide.Timeout

// Options configure a collector.
type Options struct {
	// Config reaches the API server. The collector sets no rate limit of its own.
	Config *rest.Config
	// Workers is the size of the pool; 0 chooses by the number of cores.
	Workers int
	// Ignore names resources that are not watched and so never collected.
	Ignore []schema.GroupResource
	// Resync is the interval between sweeps; 0: never.
	Resync time.Duration
	// OrphanTimeout bounds how long an orphaning deletion waits for a resource that
	// cannot be read; 0: for ever.
	OrphanTimeout time.Duration
	// SyncTimeout bounds foreground deletions.
	SyncTimeout Timeout
	// Check is how often the graph's invariants are verified; 0: never. A check takes time
	// linear in the number of objects, and the graph takes in no event meanwhile.
	Check time.Duration
	// Guard is how many deletions within ten minutes may rest on lookups alone before the collector pauses itself; 0 is
	// any number. Pauser reaches the API server as somebody who may create the ConfigMap of the pause; nil for Config.
	Guard  int
	Pauser *rest.Config
	// NoCycleDetection leaves rings of objects in foreground deletion as they are.
	NoCycleDetection bool
	// Disabled names the controllers that do not run beside the collector: a plan counts on none of them.
	Disabled []string
	// Verified is closed when it is known that the store is whole; until then the collector writes nothing, as in a pause, since what a
	// damaged store says of an owner proves nothing. Unverified says why it is not known yet, for reports. Both are nil without a check.
	Verified   <-chan struct{}
	Unverified func() string
	Log        *logrus.Entry
}

// Collector joins the parts of one run of the collector. Make a new one for each run.
type Collector struct {
	config   *rest.Config
	pauser   *rest.Config
	graph    *graph.Graph
	observer *observe.Observer
	gate     *gate
	guard    *guard
	deleting *pool // workers of attempts
	orphans  *pool // workers of the orphaner
	attempts *attempts
	orphaner *orphaner
	breaker  *breaker // nil if rings are left as they are
	tell     *teller
	tally    *tally
	cascades *cascades
	began    time.Time
	workers  int
	timeout  Timeout
	check    time.Duration
	disabled []string
	// verified and unverified are the Options' fields.
	verified   <-chan struct{}
	unverified func() string
	log        *logrus.Entry
	now        func() time.Time
	// planning holds a token while somebody makes a plan.
	planning chan struct{}
	// plans counts the plans that are being made or wait.
	plans atomic.Int64

	// mu protects synced: when the workers began.
	mu     sync.Mutex
	synced time.Time
}

// New returns a collector that has not started.
func New(o Options) (*Collector, error) { return newCollector(o, newQueue) }

// newCollector is New with the caller's queues.
func newCollector(o Options, queueOf func(name string, shape func(graph.Key) (string, int), now func() time.Time) *queue) (*Collector, error) {
	registerCounters()
	c := &Collector{
		config:   o.Config,
		pauser:   cmp.Or(o.Pauser, o.Config),
		graph:    graph.New(),
		workers:  workers(o.Workers),
		timeout:  o.SyncTimeout,
		check:    o.Check,
		disabled: o.Disabled,
		verified: o.Verified, unverified: o.Unverified,
		tally:    &tally{},
		cascades: &cascades{},
		tell:     newTeller(o.Log),
		log:      o.Log,
		now:      time.Now,
		began:    time.Now(),
		planning: make(chan struct{}, 1),
	}
	clock := func() time.Time { return c.now() } // which tests replace
	c.gate = newGate(clock, o.Log)
	c.guard = newGuard(o.Guard, c.graph, c.gate, c.tell, clock, o.Log)
	c.gate.resumed = c.guard.resumed
	actor, err := newActor(o.Config, c.gate.allow)
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	deletes, orphans := queueOf(deleteQueue, c.graph.Shape, clock), queueOf(orphanQueue, c.graph.Shape, clock)
	c.observer, err = observe.New(observe.Options{
		Config: o.Config, Graph: c.graph, Enqueue: deletes.enqueue, Ignore: o.Ignore,
		SweepEvery: o.Resync, SyncError: countSyncError, Began: c.tally.begin, Ended: c.tally.end, Log: o.Log,
		List: func(ctx context.Context, gvr schema.GroupVersionResource, each func(*graph.Record)) error {
			return actor.List(ctx, gvr, "", each)
		},
		Read: func(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (string, bool, error) {
			live, is, err := actor.Read(ctx, gvr, namespace, name, uid)
			if err != nil || is == act.Absent {
				return "", false, err
			}
			return live.Metadata.ResourceVersion, true, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the collector: %w", err)
	}
	tombstones := newTombstones()
	c.attempts = &attempts{
		graph: c.graph, actor: actor, queue: deletes, orphans: orphans, tombstones: tombstones,
		verifier: &verifier{graph: c.graph, actor: actor, queue: deletes, now: clock},
		relist:   c.observer.Relist, options: c.decideOptions, guard: c.guard, tally: c.tally, cascades: c.cascades, tell: c.tell, now: clock, log: o.Log,
	}
	c.orphaner = &orphaner{
		graph: c.graph, actor: actor, tombstones: tombstones, workers: c.workers, timeout: o.OrphanTimeout,
		search: &search{catalog: c.graph.Catalog, list: func(ctx context.Context, r *graph.Resource, namespace string, each func(*graph.Record)) error {
			return actor.List(ctx, r.Preferred(), namespace, each)
		}, holds: c.holds},
		paused: func(from, to time.Time) time.Duration { return c.gate.pauses().Within(from, to) },
		gone: func(k graph.Key, rec *graph.Record) {
			c.guard.notSeen(rec)
			deletes.enqueue(c.graph.Deleted(k.Resource, rec, clock()))
		},
		tell: c.tell, now: clock,
	}
	if !o.NoCycleDetection {
		c.breaker = &breaker{graph: c.graph, actor: actor, gate: c.gate, workers: c.workers, tell: c.tell, now: clock, log: o.Log}
	}
	c.deleting = &pool{queue: deletes, gate: c.gate, attempt: c.attempts.run, now: clock, log: o.Log}
	c.orphans = &pool{queue: orphans, gate: c.gate, now: clock, log: o.Log, attempt: func(ctx context.Context, k graph.Key) (time.Time, error) {
		return time.Time{}, c.orphaner.run(ctx, k)
	}}
	return c, nil
}

// decideOptions are what decisions depend on besides the object.
func (c *Collector) decideOptions() decide.Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	return decide.Options{Timeout: c.timeout, NotBefore: c.synced.Add(afterSync), Pauses: c.gate.pauses()}
}

// holds returns why there may be dependents that cannot be listed, or nil if there is no
// known reason.
func (c *Collector) holds() error {
	var why []string
	for _, h := range c.observer.Holding() {
		why = append(why, h.String())
	}
	if len(why) == 0 {
		return nil
	}
	return errors.New(strings.Join(why, "; "))
}

// workers returns the size of the pool. More workers share each sync of a slow disk, and leave other clients less of the processor while
// a cascade runs; docs/datastore.md has figures.
func workers(want int) int {
	if want > 0 {
		return want
	}
	return min(4*runtime.GOMAXPROCS(0), 20)
}

// Graph returns the collector's graph, for reports and tests. Callers must not change it.
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

// run collects until ctx ends. It then finishes the calls under way, cancels those that take
// longer than stopGrace, and returns when every goroutine has ended. started, if not nil, is
// called once the first lists are in the graph and the workers run. After ErrStoreWentBack
// nothing that the collector knew holds: make and run a new one.
func (c *Collector) run(ctx context.Context, started func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	events, err := act.NewEvents(calls, c.config)
	if err != nil {
		return fmt.Errorf("preparing events: %w", err)
	}
	defer events.Stop()
	c.tell.writeTo(events)
	maps, err := typedcorev1.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("preparing the pause: %w", err)
	}
	pauser, err := typedcorev1.NewForConfig(c.pauser)
	if err != nil {
		return fmt.Errorf("preparing the guard: %w", err)
	}

	var observing, working sync.WaitGroup
	defer observing.Wait()
	observing.Go(func() { cancel(c.observer.Run(ctx, cancel)) })
	observing.Go(func() { c.gate.follow(ctx, maps, c.verified) })
	observing.Go(func() { c.guard.run(ctx, pauser) })
	if c.waitForFirstLists(ctx) {
		c.mu.Lock()
		c.synced = c.now()
		c.mu.Unlock()
		s := c.graph.Stats()
		c.log.WithFields(logrus.Fields{"workers": c.workers, "objects": s.Nodes, "references": s.Edges}).Info("collector is running")
		c.deleting.queue.lanes.limitSlow(c.workers / 2)
		c.orphans.queue.lanes.limitSlow(orphaners / 2)
		for range c.workers {
			working.Go(func() { c.deleting.work(ctx, calls) })
		}
		for range orphaners {
			working.Go(func() { c.orphans.work(ctx, calls) })
		}
		if c.breaker != nil {
			working.Go(func() { c.breaker.run(ctx, calls) })
		}
		if c.check > 0 {
			working.Go(func() { c.checks(ctx) })
		}
		if started != nil {
			started()
		}
		<-ctx.Done()
	}
	c.deleting.queue.ShutDown()
	c.orphans.queue.ShutDown()
	late := time.AfterFunc(grace(ctx), abandon)
	defer late.Stop()
	working.Wait()
	return runError(ctx)
}

// grace returns how long calls under way may still take once ctx has ended. After the store went back they are cancelled at
// once: they were decided on facts that no longer hold.
func grace(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), ErrStoreWentBack) {
		return 0
	}
	return stopGrace
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
		_, synced := c.graph.Synced()
		return synced, nil
	})
	if err != nil && ctx.Err() == nil {
		c.log.WithField("syncing", c.observer.Monitors().Syncing).Warn("collector starts though some resources have not been listed yet; it reads their objects one by one")
	}
	return ctx.Err() == nil
}

// checks verifies the graph's invariants until ctx ends. It logs a violation as an error, and
// the collector continues: every write has its own evidence and preconditions.
func (c *Collector) checks(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := c.graph.Check(); err != nil {
			c.log.WithError(err).Error("the graph is broken")
		}
	}, c.check)
}
