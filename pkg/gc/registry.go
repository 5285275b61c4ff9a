package gc

import (
	"sync"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// Running is the process's registry: it holds a collector while that runs. There is one
// registry, as there is one set of metrics for a process. If several collectors run, as only
// in tests, it holds the one that started last.
var Running = &Registry{absent: report.Absence{Reason: "no collector has been started"}}

// Registry holds the collector that runs, or why none does. Reports, readiness and
// metrics are all read from it. It may be used concurrently.
type Registry struct {
	mu        sync.Mutex
	collector *Collector
	absent    report.Absence
}

// Collector returns the collector that runs, or nil and why none does.
func (r *Registry) Collector() (c *Collector, absent report.Absence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector != nil {
		return r.collector, report.Absence{}
	}
	return nil, r.absent
}

// Reported is Collector for a report.Handler.
func (r *Registry) Reported() (c report.Collector, absent report.Absence) {
	running, absent := r.Collector()
	if running == nil {
		return nil, absent // and not an interface that holds a nil pointer
	}
	return running, absent
}

// Absent sets the reason why no collector runs. It applies once no collector runs.
func (r *Registry) Absent(why report.Absence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent = why
}

// enter makes c the collector that runs.
func (r *Registry) enter(c *Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collector, r.absent = c, report.Absence{Reason: "the collector has ended"}
}

// leave takes c out, unless another has taken its place.
func (r *Registry) leave(c *Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collector == c {
		r.collector = nil
	}
}
