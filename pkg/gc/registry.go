package gc

import (
	"sync"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// Running is the process's registry: it holds a collector while that runs. There is one
// registry, as there is one set of metrics for a process. If several collectors run, as only
// in tests, it holds the one that started last.
var Running = &Registry{absent: "no collector has been started"}

// Registry holds the collector that runs, or why none does. Reports, readiness and
// metrics are all read from it. It may be used concurrently.
type Registry struct {
	mu        sync.Mutex
	collector *Collector
	absent    string
}

// Collector returns the collector that runs, or nil and why none does.
func (r *Registry) Collector() (c *Collector, absent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector != nil {
		return r.collector, ""
	}
	return nil, r.absent
}

// Reported is Collector for a report.Handler.
func (r *Registry) Reported() (c report.Collector, absent string) {
	running, absent := r.Collector()
	if running == nil {
		return nil, absent // and not an interface that holds a nil pointer
	}
	return running, ""
}

// Absent sets the reason why no collector runs. It applies once no collector runs.
func (r *Registry) Absent(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent = why
}

// enter makes c the collector that runs.
func (r *Registry) enter(c *Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collector, r.absent = c, "the collector has ended"
}

// leave takes c out, unless another has taken its place.
func (r *Registry) leave(c *Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == c {
		r.collector = nil
	}
}
