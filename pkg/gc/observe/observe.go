// Package observe finds out what the API server serves, watches it, and tells
// the graph.
//
//	discovery ─▶ Catalog ─▶ monitors (one shared informer a resource) ─▶ graph
//	    ▲                        │
//	    └── CRDs and APIServices change
//
// A resource that cannot be listed never stops the others. A resource that is no
// longer served leaves no goroutine and no retry behind.
package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/bound"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// pollEvery is how often discovery is asked though nothing seems to have changed:
// an aggregated server may change what it serves without telling.
const pollEvery = 30 * time.Second

// afterChange are the delays after which discovery is asked again when a CRD or
// an APIService has changed: discovery lags behind them.
var afterChange = []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond, time.Second, time.Second, 2 * time.Second}

// relistAtMost bounds how often one resource is listed again because its monitor
// does not show what is there: a server that goes on answering wrong lists must not
// keep the collector busy.
const relistAtMost = time.Minute

// Options says what to observe.
type Options struct {
	Config *rest.Config
	Graph  *graph.Graph
	// Enqueue is called with objects that need a new decision. It must not block.
	Enqueue func([]graph.Key)
	// Ignore names resources that are not watched, besides events.
	Ignore []schema.GroupResource
	// SweepEvery is the interval between sweeps; 0 is never.
	SweepEvery time.Duration
	// SyncError is called whenever discovery has failed, wholly or for some groups,
	// and when a resource begins to fail to list or watch. It must not block.
	SyncError func()
	// Began and Ended are called when a resource gets a monitor and when it has none
	// any more; not when one takes another's place. They must not block.
	Began, Ended func(schema.GroupResource)
	// List and Read are how the Observer reads objects live, besides its monitors.
	List ListFunc
	Read ReadFunc
	Log  *logrus.Entry
}

// ListFunc reads all objects of a resource live and hands each to a function, which may
// block, before it asks for the next page.
type ListFunc func(ctx context.Context, gvr schema.GroupVersionResource, each func(*graph.Record)) error

// ReadFunc reads an object live. exists is false only if the resource itself says that it
// has no object of that name, or that the object has another UID.
type ReadFunc func(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (resourceVersion string, exists bool, err error)

// Observer keeps the graph in step with the API server.
type Observer struct {
	graph      *graph.Graph
	config     *rest.Config
	informers  *factory
	enqueue    func([]graph.Key)
	ignore     []schema.GroupResource
	log        *logrus.Entry
	sweepEvery time.Duration
	syncError  func()
	began      func(schema.GroupResource)
	ended      func(schema.GroupResource)
	list       ListFunc
	read       ReadFunc
	changed    chan struct{} // holds one wish to ask discovery again
	giveUp     func(error)   // set by Run
	now        func() time.Time

	versions    versions
	definitions definitions

	// mu protects what follows.
	mu         sync.Mutex
	blind      bool                  // discovery failed wholly when it was last asked
	failed     []schema.GroupVersion // what it last failed for
	never      []schema.GroupVersion // those of them that it has never shown
	monitors   map[schema.GroupResource]*monitor
	draining   map[schema.GroupResource]*monitor
	suspended  map[schema.GroupResource]suspension
	relists    map[schema.GroupResource]bool // monitors that are to be replaced
	relistedAt map[schema.GroupResource]time.Time
	mended     map[string]bool // definitions and APIServices that have changed
	sweptAt    time.Time       // when the last sweep ended; before the first, when observing began
	ending     sync.WaitGroup  // the sweeper, and monitors that end
}

// New returns an Observer; Run starts it.
func New(o Options) (*Observer, error) {
	client, err := metadata.NewForConfig(metadata.ConfigFor(o.Config))
	if err != nil {
		return nil, err
	}
	return &Observer{
		graph:      o.Graph,
		config:     o.Config,
		informers:  &factory{client: client},
		enqueue:    o.Enqueue,
		ignore:     slices.Concat(alwaysIgnored, o.Ignore),
		log:        o.Log,
		sweepEvery: o.SweepEvery,
		syncError:  o.SyncError,
		began:      o.Began,
		ended:      o.Ended,
		list:       o.List,
		read:       o.Read,
		changed:    make(chan struct{}, 1),
		now:        time.Now,
		monitors:   make(map[schema.GroupResource]*monitor),
		draining:   make(map[schema.GroupResource]*monitor),
		suspended:  make(map[schema.GroupResource]suspension),
		relists:    make(map[schema.GroupResource]bool),
		relistedAt: make(map[schema.GroupResource]time.Time),
		mended:     make(map[string]bool),
		sweptAt:    time.Now(),

		definitions: definitions{known: make(map[definitionKey]*definition)},
	}, nil
}

// Run observes until ctx ends, and returns when every goroutine has ended. As soon as it
// notices that the store went back it calls giveUp with ErrStoreWentBack. giveUp must cancel
// ctx; the graph must not be used any more.
func (o *Observer) Run(ctx context.Context, giveUp context.CancelCauseFunc) error {
	o.giveUp = giveUp
	// client-go's discovery takes no context.
	d, err := discovery.NewDiscoveryClientForConfig(bound.All(o.config, func(req context.Context) (context.Context, context.CancelFunc, error) {
		req, cancel := context.WithCancel(req)
		stop := context.AfterFunc(ctx, cancel)
		return req, func() { stop(); cancel() }, nil
	}))
	if err != nil {
		return err
	}
	defer o.stopAll()
	o.ending.Go(func() { o.sweeps(ctx) })
	delays := afterChange
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.changed:
			delays = afterChange
		case <-timer.C:
			o.checkHealth()
			o.resync(ctx, d)
			if len(delays) > 0 {
				delays = delays[1:]
			}
		}
		if len(delays) > 0 {
			timer.Reset(delays[0])
		} else {
			timer.Reset(pollEvery)
		}
	}
}

// checkHealth looks for resources whose monitors receive nothing.
func (o *Observer) checkHealth() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.monitors {
		m.health.check()
	}
}

// noticed is called for every event; first is true of what a monitor's first list shows.
// Some objects change what is served, or how. A resource that cannot be listed may be
// mended by that, and is tried again without its delay.
func (o *Observer) noticed(gr schema.GroupResource, c change, rec *graph.Record, first bool) {
	if gr != crds && gr != apiServices {
		return
	}
	switch c {
	case shown:
		o.definitions.shown(definitionKey{gr, rec.Name}, rec.UID, first)
		o.mu.Lock()
		o.mended[rec.Name] = true
		o.mu.Unlock()
	case deleted:
		o.definitions.ended(definitionKey{gr, rec.Name})
	}
	o.askAgain()
}

// askAgain makes the Observer ask discovery again soon.
func (o *Observer) askAgain() {
	select {
	case o.changed <- struct{}{}:
	default: // the wish is there already
	}
}

// resync asks discovery and starts and stops monitors accordingly.
func (o *Observer) resync(ctx context.Context, d discovery.DiscoveryInterface) {
	found, err := o.versions.discover(ctx, d, o.ignore)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		o.discoveryFailed(err)
		return
	}
	catalog := found.catalog
	o.readDefinitions(ctx, d, catalog)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteDiscovery(found)
	if !catalog.Equal(o.graph.Catalog()) {
		o.enqueue(o.graph.SetCatalog(catalog, time.Now()))
	}
	o.dropEnded()
	for _, r := range catalog.Resources() {
		if r.Monitored {
			o.ensureMonitor(ctx, r)
		}
	}
	for _, m := range o.monitors {
		if by := found.services[m.gvr.GroupVersion()]; by != unknown {
			m.server.Store(int32(by))
		}
	}
	o.retryMended(ctx)
	for gr := range o.relists {
		if time.Since(o.relistedAt[gr]) >= relistAtMost {
			delete(o.relists, gr)
			o.relistedAt[gr] = time.Now()
			o.restart(ctx, gr)
		}
	}
	for gr, m := range o.monitors {
		if r := catalog.Resource(gr); r == nil || !r.Monitored {
			o.retire(ctx, gr, m)
		}
	}
	o.definitions.prune(o.defines)
}

// discoveryFailed reports that discovery has failed wholly. Only the first failure in a row is logged.
func (o *Observer) discoveryFailed(err error) {
	o.syncError()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.blind {
		o.log.WithError(err).Warn("cannot discover what the API server serves; going on with what is known")
	}
	o.blind = true
}

// noteDiscovery keeps and reports for which versions discovery failed. A failure is
// logged when it begins, and when it ends. o.mu is held.
func (o *Observer) noteDiscovery(found *discovered) {
	if len(found.failed) > 0 {
		o.syncError()
	}
	switch {
	case len(found.failed) > 0 && !slices.Equal(found.failed, o.failed):
		o.log.WithField("versions", found.failed).Warn("some API versions cannot be discovered; what was known of them stays")
	case len(found.failed) == 0 && (o.blind || len(o.failed) > 0):
		o.log.Info("all API versions can be discovered again")
	}
	o.blind, o.failed, o.never = false, found.failed, found.never
}

// stopAll ends every monitor and waits for them.
func (o *Observer) stopAll() {
	o.mu.Lock()
	for _, m := range o.monitors {
		o.ending.Go(m.stop)
	}
	o.mu.Unlock()
	o.ending.Wait()
}
