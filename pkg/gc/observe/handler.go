package observe

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// handler takes a monitor's events from the informer. It only notes them: client-go
// keeps every event that its handler has not returned from, however many there are of
// one object.
type handler struct {
	o        *Observer
	resource schema.GroupResource
	monitor  *monitor
}

var _ cache.ResourceEventHandler = (*handler)(nil)

func (h *handler) OnAdd(obj any, isInInitialList bool) {
	if rec, ok := obj.(*graph.Record); ok {
		h.note(shown, rec, isInInitialList)
	}
}

func (h *handler) OnUpdate(before, now any) {
	old, _ := before.(*graph.Record)
	rec, ok := now.(*graph.Record)
	if !ok {
		return
	}
	if old != nil && old.UID != rec.UID {
		// A re-list found another object under the name. Nobody has seen the end of
		// the one before.
		h.monitor.pending.add(vanished, old)
	}
	h.note(shown, rec, false)
}

func (h *handler) OnDelete(obj any) {
	switch d := obj.(type) {
	case *graph.Record:
		h.note(deleted, d, false)
	case cache.DeletedFinalStateUnknown:
		// Missing from a re-list: a reason to look, not a proof.
		if rec, ok := d.Obj.(*graph.Record); ok {
			h.monitor.pending.add(vanished, rec)
			h.o.noticed(h.resource, vanished, rec, false)
		} else {
			h.o.log.WithField("resource", h.resource.String()).WithField("object", d.Key).
				Warn("an informer lost an object without saying which; its dependents are looked at when they change")
		}
	}
}

// note keeps an event for the graph. The revision counts from when the event arrives;
// first is true of what the monitor's first list shows.
func (h *handler) note(c change, rec *graph.Record, first bool) {
	h.monitor.revision.note(rec.ResourceVersion)
	h.monitor.pending.add(c, rec)
	h.o.noticed(h.resource, c, rec, first)
}
