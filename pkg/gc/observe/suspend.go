package observe

import (
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// suspension is what is remembered of a resource that is not served though its objects
// may exist.
type suspension struct {
	kind     schema.GroupKind
	scoped   bool // to namespaces
	versions []string
	server   server
}

// leave decides whether the graph keeps the objects of a resource whose monitor has ended.
// They are dropped only if their end is proved. Otherwise they stay, and block their owners
// as if the resource were served. o.mu is held.
func (o *Observer) leave(gr schema.GroupResource, m *monitor) {
	left := o.graph.Count(gr)
	if left == 0 || m.succeeded || o.definitions.end(gr, m.versions, server(m.server.Load())) {
		o.enqueue(o.graph.RemoveResource(gr, time.Now()))
		return
	}
	o.graph.Suspend(gr, time.Now())
	o.suspended[gr] = suspension{kind: m.kind, scoped: m.scoped, versions: m.versions, server: server(m.server.Load())}
	o.log.WithFields(logrus.Fields{"resource": gr.String(), "objects": left}).
		Warn("a resource is no longer served though objects of it may exist; they block their owners and hold orphaning")
}

// dropEnded drops suspended resources whose end is proved by now from the graph. o.mu is
// held.
func (o *Observer) dropEnded() {
	for gr, s := range o.suspended {
		if o.definitions.end(gr, s.versions, s.server) {
			delete(o.suspended, gr)
			o.enqueue(o.graph.RemoveResource(gr, time.Now()))
			o.log.WithField("resource", gr.String()).Info("the CRD or APIService of a resource that was no longer served is gone, and its objects with it")
		}
	}
}

// suspendedBy returns what defines the suspended resources.
func (o *Observer) suspendedBy() (all []definitionKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for gr, s := range o.suspended {
		all = append(all, definedBy(gr, s.versions)...)
	}
	return all
}

// defines is true if a CRD or APIService defines anything that is monitored, was until
// now, or is suspended. o.mu is held.
func (o *Observer) defines(k definitionKey) bool {
	for _, monitors := range []map[schema.GroupResource]*monitor{o.monitors, o.draining} {
		for gr, m := range monitors {
			if slices.Contains(definedBy(gr, m.versions), k) {
				return true
			}
		}
	}
	for gr, s := range o.suspended {
		if slices.Contains(definedBy(gr, s.versions), k) {
			return true
		}
	}
	return false
}
