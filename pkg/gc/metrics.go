package gc

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // the workqueue_* series

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
)

// docs/metrics.md lists every series; a test compares it with what a server shows.
const namespace = "reap_gc"

var (
	decisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "decisions_total",
		Help: "Decisions about objects, by reason.",
	}, []string{"reason"})
	calls = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "api_calls_total",
		Help: "Calls to the API server about single objects, by verb and outcome.",
	}, []string{"verb", "outcome"})
	conflicts = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "conflicts_total",
		Help: "Writes that the API server refused because the object had changed since it was decided about, by verb.",
	}, []string{"verb"})

	cycles = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "cycles_broken_total",
		Help: "Rings of objects in foreground deletion that were broken.",
	})

	timeouts = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "synchronous_deletion_timeouts_total",
		Help: "Foreground deletions that were given up on though a dependent still blocked them.",
	})

	// syncErrors is set by registerMetrics.
	syncErrors increaser

	registerOnce sync.Once
)

type increaser interface{ Inc() }

// gauge makes a series that is read from the running collector, 0 when none runs.
func gauge(name, help string, read func(*Collector) int) metrics.GaugeFunc {
	return gaugeOf(&metrics.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func(c *Collector) float64 { return float64(read(c)) })
}

// queueAge is gauge for the age of a queue's oldest object.
func queueAge(name string, of func(*Collector) *queue) metrics.GaugeFunc {
	return gaugeOf(&metrics.GaugeOpts{
		Namespace: namespace, Name: "queue_oldest_seconds", ConstLabels: map[string]string{"name": name},
		Help: "How long the object that has waited longest for its turn has waited, by queue.",
	}, func(c *Collector) float64 { return of(c).lanes.age().Seconds() })
}

func gaugeOf(o *metrics.GaugeOpts, read func(*Collector) float64) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(o, func() float64 {
		if c, _ := Running.Collector(); c != nil {
			return read(c)
		}
		return 0
	})
}

// registerMetrics registers the collector's series with the process's registry,
// once, and makes those with known labels appear.
func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(decisions, calls, conflicts, cycles, timeouts)
		legacyregistry.RawMustRegister(
			gauge("running", "1 while a collector runs in this process.", func(*Collector) int { return 1 }),
			gauge("paused", "1 while the collector writes nothing: it is paused, or does not know yet that it is not.", func(c *Collector) int {
				if c.gate.allow() != nil {
					return 1
				}
				return 0
			}),
			queueAge(deleteQueue, func(c *Collector) *queue { return c.deleting.queue }),
			queueAge(orphanQueue, func(c *Collector) *queue { return c.orphans.queue }),
			gauge("nodes", "Observed objects in the graph.", func(c *Collector) int { return c.graph.Stats().Nodes }),
			gauge("virtual_nodes", "UIDs that references name and no monitor shows.", func(c *Collector) int { return c.graph.Stats().Virtual }),
			gauge("edges", "Owner references in the graph.", func(c *Collector) int { return c.graph.Stats().Edges }),
			gauge("undiscovered_groups", "API groups that discovery fails for.", func(c *Collector) int { return len(c.observer.Undiscovered()) }),
		)
		legacyregistry.CustomMustRegister(&monitorMetrics{})
		syncErrors = registerSyncErrors(legacyregistry.Register)
		for _, r := range decide.Reasons() {
			decisions.WithLabelValues(string(r))
		}
		for _, v := range act.Verbs() {
			for _, o := range act.Outcomes() {
				calls.WithLabelValues(string(v), o.String())
			}
		}
		for _, v := range []act.Verb{act.VerbDelete, act.VerbPatch} {
			conflicts.WithLabelValues(string(v))
		}
	})
}

// registerSyncErrors registers the counter that Kubernetes' own collector has, under
// the same name and with the same help, and returns the one that counts: where such a
// collector has been made in this process before, its counter.
func registerSyncErrors(register func(metrics.Registerable) error) increaser {
	ours := metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total",
		Help: "Number of garbage collector resources sync errors",
	})
	var taken prometheus.AlreadyRegisteredError
	if errors.As(register(ours), &taken) {
		if theirs, ok := taken.ExistingCollector.(increaser); ok {
			return theirs
		}
	}
	return ours
}

func countDecision(r decide.Reason) { decisions.WithLabelValues(string(r)).Inc() }

func countCall(v act.Verb, o act.Outcome) {
	calls.WithLabelValues(string(v), o.String()).Inc()
	if o == act.Changed {
		conflicts.WithLabelValues(string(v)).Inc()
	}
}

func countCycle() { cycles.Inc() }

func countTimeout() { timeouts.Inc() }

func countSyncError() { syncErrors.Inc() }
