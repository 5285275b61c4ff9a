package controllers

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	failing = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "reap", Name: "controller_failing",
		Help: "1 while the controller cannot start, 0 otherwise; of the controllers that start with the first object of their kind.",
	}, []string{"controller"})
	registerFailing = sync.OnceFunc(func() { legacyregistry.MustRegister(failing) })
)

// Failures holds the controllers that cannot start. Only a controller that starts with the first object of its kind can be
// in it: if another cannot start, Run returns the error. The zero value is empty. It may be used concurrently.
type Failures struct {
	mu  sync.Mutex
	all map[string]Failure
}

// Failure is a controller that cannot start, and is tried again.
type Failure struct {
	Controller string
	// Since is the first of the Attempts, Err the error of the last.
	Since    time.Time
	Attempts int
	Err      error
}

// All returns the failures, sorted by controller.
func (f *Failures) All() []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.all), func(a, b Failure) int { return cmp.Compare(a.Controller, b.Controller) })
}

// add records a failed attempt to start a controller.
func (f *Failures) add(controller string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]Failure{}
	}
	now, known := f.all[controller]
	if !known {
		now = Failure{Controller: controller, Since: time.Now()}
	}
	now.Attempts, now.Err = now.Attempts+1, err
	f.all[controller] = now
	failing.WithLabelValues(controller).Set(1)
}

// clear records that a controller runs, or waits for its first object, or is not wanted any more.
func (f *Failures) clear(controller string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, controller)
	failing.WithLabelValues(controller).Set(0)
}
