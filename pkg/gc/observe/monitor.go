package observe

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/sirupsen/logrus"

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
	cancel   context.CancelFunc
	done     chan struct{} // closed when the informer's goroutines have ended

	// mu protects what follows.
	mu sync.Mutex
	// err is why the resource could last not be listed or watched; nil if it could.
	err error
	// failedAt and failedWith are when that was, and how far the informer had come.
	failedAt   time.Time
	failedWith string
}

// failsAgainWithin is longer than client-go's longest delay between two tries: a
// monitor that has not failed for so long works, though nothing may have happened
// that would show it.
const failsAgainWithin = 90 * time.Second

// startMonitor announces the resource to the graph and starts to watch it.
func (o *Observer) startMonitor(ctx context.Context, r *graph.Resource) (*monitor, error) {
	m := &monitor{gvr: r.Preferred(), kind: r.GroupKind(), done: make(chan struct{})}
	informer, err := o.informers.informer(m.gvr, func(resourceVersion string) {
		if m.revision.wentBack(resourceVersion) {
			o.giveUp(ErrStoreWentBack)
		}
		m.revision.note(resourceVersion)
	})
	if err != nil {
		return nil, err
	}
	m.informer = informer
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.failed(o.log, err)
	}); err != nil {
		return nil, err
	}
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

// failing returns why the resource cannot be listed or watched, or nil.
func (m *monitor) failing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && (time.Since(m.failedAt) > failsAgainWithin || m.informer.LastSyncResourceVersion() != m.failedWith) {
		m.err = nil
	}
	return m.err
}

// failed notes that a list or watch ended with an error. It is logged once, not
// at every retry. That a watch ends, or that its version has been compacted, is
// the ordinary course.
func (m *monitor) failed(log *logrus.Entry, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	m.mu.Lock()
	first := m.err == nil
	m.err, m.failedAt, m.failedWith = err, time.Now(), m.informer.LastSyncResourceVersion()
	m.mu.Unlock()
	if first {
		log.WithField("resource", m.gvr.GroupResource().String()).WithError(err).
			Warn("cannot list or watch a resource; its objects are neither collected nor taken for absent")
	}
}

// works notes that events arrive: this one says how far the store has come.
func (m *monitor) works(obj any) {
	if rec, ok := obj.(*graph.Record); ok {
		m.revision.note(rec.ResourceVersion)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
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
	h.monitor.works(obj)
	if rec, ok := obj.(*graph.Record); ok {
		h.o.consider(h.o.graph.Upsert(h.resource, rec))
		h.o.noticed(h.resource)
	}
}

func (h *handler) OnUpdate(before, now any) {
	h.monitor.works(now)
	old, _ := before.(*graph.Record)
	rec, ok := now.(*graph.Record)
	if !ok {
		return
	}
	if old != nil && old.UID != rec.UID {
		// A re-list found another object under the name. Nobody has seen the end of
		// the one before.
		h.o.consider(h.o.graph.Vanished(h.resource, old.UID))
	}
	h.o.consider(h.o.graph.Upsert(h.resource, rec))
	h.o.noticed(h.resource)
}

func (h *handler) OnDelete(obj any) {
	h.monitor.works(obj)
	switch d := obj.(type) {
	case *graph.Record:
		h.o.consider(h.o.graph.Deleted(h.resource, d))
	case cache.DeletedFinalStateUnknown:
		// Missing from a re-list: a reason to look, not a proof.
		if rec, ok := d.Obj.(*graph.Record); ok {
			h.o.consider(h.o.graph.Vanished(h.resource, rec.UID))
		} else {
			h.o.log.WithField("resource", h.resource.String()).WithField("object", d.Key).
				Warn("an informer lost an object without saying which; its dependents are looked at when they change")
		}
	}
	h.o.noticed(h.resource)
}
