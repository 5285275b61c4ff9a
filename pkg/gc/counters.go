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
		Help: "Calls to the API server about single objects, and live lists, by verb and by outcome: done, gone, changed, failed.",
	}, []string{"verb", "outcome"})
	conflicts = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "conflicts_total",
		Help: "Writes that the API server refused because the object had changed since the decision. The collector reads it and decides again.",
	}, []string{"verb"})

	cycles = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "cycles_broken_total",
		Help: "Rings of objects in foreground deletion that were broken.",
	})

	timeouts = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "synchronous_deletion_timeouts_total",
		Help: "Foreground deletions that timed out: the object was deleted while dependents still blocked it.",
	})

	lookups = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "lookup_deletions_total",
		Help: "Deletions that rested on lookups alone: nobody had seen an owner being deleted.",
	})

	guardPauses = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Name: "guard_pauses_total",
		Help: "Times that the collector paused itself because too many deletions rested on lookups alone.",
	})

	// syncErrors is set by registerCounters.
	syncErrors increaser

	registerOnce sync.Once
)

type increaser interface{ Inc() }

// registerCounters registers the collector's counters with the process's registry,
// once, and makes those with known labels appear.
func registerCounters() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(decisions, calls, conflicts, cycles, timeouts, lookups, guardPauses)
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

func countLookup() { lookups.Inc() }

func countGuardPause() { guardPauses.Inc() }

func countSyncError() { syncErrors.Inc() }
