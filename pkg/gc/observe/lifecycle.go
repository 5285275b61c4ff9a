package observe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// ensureMonitor starts a monitor unless there is one at the right version. The list of
// one that replaces another takes over the nodes. o.mu is held.
func (o *Observer) ensureMonitor(ctx context.Context, r *graph.Resource) {
	gr := r.GroupResource()
	if o.draining[gr] != nil {
		return // it will be asked for again when the old one has ended
	}
	old := o.monitors[gr]
	switch {
	case old == nil:
	case old.kind != r.GroupKind() || old.scoped != r.Namespaced:
		// A CRD was made again with another kind or scope: its objects are others.
		old.succeeded = true
		o.retire(ctx, gr, old)
		return
	case old.gvr == r.Preferred():
		old.versions = r.Versions
		return
	}
	o.replace(ctx, r)
}

// replace starts a monitor of a resource, in place of the existing one, if any. o.mu is held.
func (o *Observer) replace(ctx context.Context, r *graph.Resource) {
	gr := r.GroupResource()
	old := o.monitors[gr]
	if old == nil {
		o.began(gr)
	}
	if s, was := o.suspended[gr]; was {
		if s.kind != r.GroupKind() || s.scoped != r.Namespaced {
			o.enqueue(o.graph.RemoveResource(gr, time.Now()))
		}
		delete(o.suspended, gr)
	}
	if old == nil {
		o.definitions.begin(gr)
	}
	m, err := o.startMonitor(ctx, r, old)
	if err != nil {
		o.log.WithField("resource", gr.String()).WithError(err).Error("cannot start a monitor")
		return
	}
	o.monitors[gr] = m
}

// Relist makes the Observer list a resource again soon, because its monitor does not show
// what exists. It does not wait for that.
func (o *Observer) Relist(gr schema.GroupResource) {
	o.mu.Lock()
	o.relists[gr] = true
	o.mu.Unlock()
	o.askAgain()
}

// restart replaces a resource's monitor by a new one, which lists it again. o.mu is
// held.
func (o *Observer) restart(ctx context.Context, gr schema.GroupResource) {
	if r := o.graph.Catalog().Resource(gr); r != nil && o.monitors[gr] != nil {
		o.replace(ctx, r)
	}
}

// retire stops the monitor of a resource that is no longer served, once its events have
// drained. o.mu is held.
func (o *Observer) retire(ctx context.Context, gr schema.GroupResource, m *monitor) {
	delete(o.monitors, gr)
	o.draining[gr] = m
	m.health.retire()
	o.ending.Go(func() {
		m.drain(ctx, o.graph)
		m.stop()
		o.mu.Lock()
		defer o.mu.Unlock()
		if ctx.Err() == nil {
			o.leave(gr, m)
		}
		delete(o.draining, gr)
		o.ended(gr) // before another can start
		o.askAgain()
	})
}

// retryMended restarts failing monitors whose CRD or APIService has changed. o.mu is held.
func (o *Observer) retryMended(ctx context.Context) {
	for gr, m := range o.monitors {
		if m.state().State == Failing && (o.mended[gr.String()] || o.mended[m.gvr.Version+"."+gr.Group]) {
			o.restart(ctx, gr)
		}
	}
	clear(o.mended)
}
