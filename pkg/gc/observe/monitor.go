package observe

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// drainTimeout bounds how long a monitor whose resource is no longer served waits
// for the last DELETED events of its objects.
const drainTimeout = 5 * time.Second

// monitor watches one resource and tells the graph.
type monitor struct {
	gvr      schema.GroupVersionResource
	kind     schema.GroupKind
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
	revision revision
	health   *health
	cancel   context.CancelFunc
	done     chan struct{} // closed when the informer's goroutines have ended
}

// startMonitor announces the resource to the graph and starts to watch it. What is to
// take the place of an old monitor goes on with what that one has seen; if that one is
// doubted it lists from a quorum, since a list of any age could show the same again.
func (o *Observer) startMonitor(ctx context.Context, r *graph.Resource, old *monitor, doubted bool) (*monitor, error) {
	m := &monitor{gvr: r.Preferred(), kind: r.GroupKind(), done: make(chan struct{})}
	if old != nil {
		m.health = old.health
		m.revision.raise(old.revision.highest.Load())
	} else {
		m.health = &health{log: o.log.WithField("resource", r.GroupResource().String()), began: o.syncError}
	}
	informer, err := o.informers.informer(m.gvr, doubted, calls{
		listed: func(resourceVersion string) {
			if m.revision.wentBack(resourceVersion) {
				o.giveUp(ErrStoreWentBack)
			}
			m.revision.note(resourceVersion)
		},
		watched: m.health.works,
		failed:  func(ctx context.Context, err error) { o.callFailed(ctx, m, err) },
	})
	if err != nil {
		return nil, err
	}
	m.informer = informer
	if m.handled, err = informer.AddEventHandler(&handler{o: o, resource: r.GroupResource(), monitor: m}); err != nil {
		return nil, err
	}
	o.graph.AddResource(r.GroupResource(), r.GroupKind())
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		informer.RunWithContext(ctx)
	}()
	return m, nil
}

// synced is true once the whole initial list has gone into the graph.
func (m *monitor) synced() bool { return m.handled.HasSynced() }

// callFailed notes that a list or watch was refused. Where the answer is that there is
// no such resource, discovery is asked too: it may know of its end by now.
func (o *Observer) callFailed(ctx context.Context, m *monitor, err error) {
	unknown := apierrors.IsNotFound(err)
	if m.health.failed(ctx, err, unknown || m.synced()) && unknown {
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

// handler hands a monitor's events to the graph, in order, in the informer's
// own goroutine.
type handler struct {
	o        *Observer
	resource schema.GroupResource
	monitor  *monitor
}

var _ cache.ResourceEventHandler = (*handler)(nil)

func (h *handler) OnAdd(obj any, _ bool) {
	if rec, ok := obj.(*graph.Record); ok {
		h.monitor.revision.note(rec.ResourceVersion)
		h.o.consider(h.o.graph.Upsert(h.resource, rec, time.Now()))
		h.o.noticed(h.resource, rec.Name)
	}
}

func (h *handler) OnUpdate(before, now any) {
	old, _ := before.(*graph.Record)
	rec, ok := now.(*graph.Record)
	if !ok {
		return
	}
	h.monitor.revision.note(rec.ResourceVersion)
	if old != nil && old.UID != rec.UID {
		// A re-list found another object under the name. Nobody has seen the end of
		// the one before.
		h.o.consider(h.o.graph.Vanished(h.resource, old.UID))
	}
	h.o.consider(h.o.graph.Upsert(h.resource, rec, time.Now()))
	h.o.noticed(h.resource, rec.Name)
}

func (h *handler) OnDelete(obj any) {
	switch d := obj.(type) {
	case *graph.Record:
		h.monitor.revision.note(d.ResourceVersion)
		h.o.consider(h.o.graph.Deleted(h.resource, d, time.Now()))
	case cache.DeletedFinalStateUnknown:
		// Missing from a re-list: a reason to look, not a proof.
		if rec, ok := d.Obj.(*graph.Record); ok {
			h.o.consider(h.o.graph.Vanished(h.resource, rec.UID))
		} else {
			h.o.log.WithField("resource", h.resource.String()).WithField("object", d.Key).
				Warn("an informer lost an object without saying which; its dependents are looked at when they change")
		}
	}
	h.o.noticed(h.resource, "")
}
