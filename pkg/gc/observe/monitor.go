package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// drainTimeout bounds how long a monitor whose resource is no longer served waits
// for the last DELETED events of its objects.
const drainTimeout = 5 * time.Second

// monitor watches one resource and tells the graph.
//
//	informer ──events──▶ handler ──▶ pending ──▶ handOver ──▶ graph
type monitor struct {
	o        *Observer
	gvr      schema.GroupVersionResource
	kind     schema.GroupKind
	scoped   bool // to namespaces
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
	pending  *pending
	// listed is true once the whole first list is in the graph.
	listed   atomic.Bool
	revision revision
	paging   paging
	health   *health
	cancel   context.CancelFunc
	done     chan struct{} // closed when the monitor's goroutines have ended

	// server says who answers for the version, if that has ever been known.
	server atomic.Int32
	// anew is true once that server's resourceVersion has started over.
	anew atomic.Bool
	// versions is what discovery last said; succeeded is true if another kind, or
	// one of the other scope, has the resource's name. Observer.mu protects them.
	versions  []string
	succeeded bool

	// known holds the UIDs that the monitor has told the graph of, until the whole first
	// list is there; nil if there was no object when the monitor began. Only handOver
	// uses it.
	known map[types.UID]struct{}
}

// startMonitor makes a monitor of a resource and starts it. A monitor that replaces another
// begins when that has ended: from then on only the new one adds objects. Its first list is
// read from a quorum, so that objects which it has not shown by the end of that list were
// gone when the list was read.
func (o *Observer) startMonitor(ctx context.Context, r *graph.Resource, old *monitor) (*monitor, error) {
	gr := r.GroupResource()
	m := &monitor{o: o, gvr: r.Preferred(), kind: r.GroupKind(), scoped: r.Namespaced, pending: newPending(), done: make(chan struct{}), versions: r.Versions}
	if old != nil {
		m.health = old.health
		m.server.Store(old.server.Load())
	} else {
		m.health = &health{
			log:      o.log.WithField("resource", gr.String()),
			now:      o.now,
			began:    o.syncError,
			waiting:  o.now(),
			readable: func(is bool) { o.graph.SetReadable(gr, is, time.Now()) },
		}
	}
	informer, err := o.informers.informer(m.gvr, old != nil || o.graph.Count(gr) > 0, calls{
		listed: func(resourceVersion string) {
			if m.revision.wentBack(resourceVersion) {
				o.wentBack(m)
			}
			m.revision.note(resourceVersion)
		},
		page: func(first, last bool) {
			if m.paging.page(first, last) {
				m.health.progressed()
			}
		},
		watched: m.health.works,
		failed:  func(ctx context.Context, err error) { o.callFailed(ctx, m, err) },
	})
	if err != nil {
		return nil, err
	}
	m.informer = informer
	if m.handled, err = informer.AddEventHandler(&handler{o: o, resource: gr, monitor: m}); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	m.cancel = cancel
	go func() {
		defer close(m.done)
		if old != nil {
			old.stop()
			if old.anew.Load() {
				o.enqueue(o.graph.ForgetFacts(m.kind)) // what was on its way to the graph too
			} else {
				m.revision.raise(old.revision.highest.Load())
			}
		}
		if own.Err() == nil {
			m.run(ctx, own)
		}
	}()
	return m, nil
}

// run announces the resource and watches it until own ends. What has been seen by then
// still goes into the graph, unless ctx has ended too.
func (m *monitor) run(ctx, own context.Context) {
	gr := m.gvr.GroupResource()
	if m.o.graph.Count(gr) > 0 {
		m.known = map[types.UID]struct{}{}
	}
	m.o.graph.AddResource(gr, m.kind, time.Now())
	m.health.announced()
	var handing sync.WaitGroup
	defer handing.Wait()
	ended := make(chan struct{})
	defer close(ended)
	handing.Go(func() { m.handOver(ctx, ended) })
	m.informer.RunWithContext(own)
}

// handOver tells the graph what the monitor sees, until ctx ends, or until ended is
// closed and the graph has heard all.
func (m *monitor) handOver(ctx context.Context, ended <-chan struct{}) {
	firstListSeen := m.handled.HasSyncedChecker().Done()
	var batch []notification
	for last := false; !last; {
		select {
		case <-ctx.Done():
			return
		case <-firstListSeen:
			firstListSeen = nil
			m.pending.mark() // the handler has seen all of it
		case <-m.pending.ready:
		case <-ended:
			last = true // nothing is added any more
		}
		for batch = m.pending.take(batch[:0]); len(batch) > 0; batch = m.pending.take(batch[:0]) {
			for i := range batch {
				if ctx.Err() != nil {
					return // the graph is not to be used any more
				}
				m.tell(&batch[i])
			}
			clear(batch)
		}
	}
}

// tell hands one notification to the graph.
func (m *monitor) tell(n *notification) {
	g, gr, now := m.o.graph, m.gvr.GroupResource(), time.Now()
	switch n.change {
	case shown, shownThenVanished:
		if m.known != nil {
			m.known[n.record.UID] = struct{}{}
		}
		m.o.enqueue(g.Upsert(gr, n.record, now))
		if n.change == shownThenVanished {
			m.o.enqueue(g.Vanished(gr, n.record.UID))
		}
	case vanished:
		m.o.enqueue(g.Vanished(gr, n.record.UID))
	case deleted:
		m.o.enqueue(g.Deleted(gr, n.record, now))
	case firstList:
		if m.known != nil {
			m.o.enqueue(g.VanishedExcept(gr, func(uid types.UID) bool { _, is := m.known[uid]; return is }))
			m.known = nil
		}
		if gr == crds {
			m.o.definitions.allListed()
		}
		m.listed.Store(true) // first, so that no resource is said to be syncing once the graph has all
		g.Listed(gr, now)
	}
}

// wentBack is called when a list from a quorum is older than what the monitor has seen.
// An aggregated server has a store of its own: what was proved about other resources
// still holds. Where it is not known who answers, the list tells of the API server's store.
func (o *Observer) wentBack(m *monitor) {
	if server(m.server.Load()) != aggregated {
		o.giveUp(ErrStoreWentBack)
		return
	}
	gr := m.gvr.GroupResource()
	o.log.WithField("resource", gr.String()).
		Warn("an aggregated server's resourceVersion started over; dropping what was proved about the resource and listing it again")
	m.anew.Store(true)
	m.revision.highest.Store(0)
	o.enqueue(o.graph.ForgetFacts(m.kind))
	o.Relist(gr)
}

// callFailed notes that a list or watch was refused. Where the answer is that there is
// no such resource, discovery is asked too: it may know of its end by now.
func (o *Observer) callFailed(ctx context.Context, m *monitor, err error) {
	unknown := apierrors.IsNotFound(err)
	if m.health.failed(ctx, err, unknown || m.listed.Load()) && unknown {
		o.askAgain()
	}
}

// stop ends the monitor and waits for its goroutines.
func (m *monitor) stop() {
	m.cancel()
	<-m.done
}

// drain waits until the monitor has shown every object's end, within a limit:
// when a CRD goes, its objects go first, and stopping the monitor would drop the
// events that say so.
func (m *monitor) drain(ctx context.Context, g *graph.Graph) {
	gr := m.gvr.GroupResource()
	// An error only says that the limit came first.
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, drainTimeout, true, func(context.Context) (bool, error) {
		return g.Count(gr) == 0, nil
	})
}
