package gc

import (
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // the workqueue_* series

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
)

const namespace = "reap_gc"

var (
	collected = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "objects_collected_total",
		Help: "Objects that the collector deleted, by group, resource and propagation policy.",
	}, []string{"group", "resource", "policy"})
	decisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "decisions_total",
		Help: "Decisions about objects, by reason.",
	}, []string{"reason"})
	calls = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "api_calls_total",
		Help: "Calls to the API server about single objects, by verb and outcome.",
	}, []string{"verb", "outcome"})

	cycles = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "cycles_broken_total",
		Help: "Rings of objects in foreground deletion that were broken.",
	})

	timeouts = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "synchronous_deletion_timeouts_total",
		Help: "Foreground deletions that were given up on though a dependent still blocked them.",
	})

	// current is the collector that runs; nil when none does.
	current atomic.Pointer[Collector]

	registerOnce sync.Once
)

// gauge makes a series that is read from the running collector, 0 when none runs.
func gauge(name, help string, read func(*Collector) int) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(&metrics.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func() float64 {
		if c := current.Load(); c != nil {
			return float64(read(c))
		}
		return 0
	})
}

// registerMetrics registers the collector's series with the process's registry,
// once, and makes those with known labels appear.
func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(collected, decisions, calls, cycles, timeouts)
		legacyregistry.RawMustRegister(
			gauge("running", "1 while a collector runs in this process.", func(*Collector) int { return 1 }),
			gauge("nodes", "Observed objects in the graph.", func(c *Collector) int { return c.graph.Stats().Nodes }),
			gauge("virtual_nodes", "UIDs that references name and no monitor shows.", func(c *Collector) int { return c.graph.Stats().Virtual }),
			gauge("edges", "Owner references in the graph.", func(c *Collector) int { return c.graph.Stats().Edges }),
			gauge("monitors_synced", "Monitors whose first list is in the graph.", func(c *Collector) int { return c.observer.Monitors().Synced }),
			gauge("monitors_syncing", "Monitors that read their first list.", func(c *Collector) int { return c.observer.Monitors().Syncing }),
			gauge("monitors_failing", "Monitors that cannot list or watch.", func(c *Collector) int { return c.observer.Monitors().Failing }),
		)
		for _, r := range decide.Reasons() {
			decisions.WithLabelValues(string(r))
		}
		for _, v := range act.Verbs() {
			for _, o := range act.Outcomes() {
				calls.WithLabelValues(string(v), o.String())
			}
		}
	})
}

func countCollected(gr schema.GroupResource, policy metav1.DeletionPropagation) {
	collected.WithLabelValues(gr.Group, gr.Resource, string(policy)).Inc()
}

func countDecision(r decide.Reason) { decisions.WithLabelValues(string(r)).Inc() }

func countCall(v act.Verb, o act.Outcome) { calls.WithLabelValues(string(v), o.String()).Inc() }

func countCycle() { cycles.Inc() }

func countTimeout() { timeouts.Inc() }
