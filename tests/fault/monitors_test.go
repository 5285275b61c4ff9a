package fault

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// logged makes the collector log into a hook.
func logged(o *gc.Options) *logrustest.Hook {
	log, hook := logrustest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	o.Log = logrus.NewEntry(log)
	return hook
}

// entries returns what was logged at a level, with the resource that it is about.
func entries(hook *logrustest.Hook, level logrus.Level) []string {
	var all []string
	for _, e := range hook.AllEntries() {
		if e.Level == level {
			resource, _ := e.Data["resource"].(string)
			all = append(all, strings.TrimSpace(resource+" "+e.Message))
		}
	}
	return all
}

// series returns the value of the series with these labels, given as alternating
// names and values. It returns false if there is none.
func series(t *testing.T, name string, labels ...string) (float64, bool) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			fits := 0
			for _, l := range m.GetLabel() {
				for i := 0; i < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
						fits++
					}
				}
			}
			if 2*fits == len(labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

func wantSeries(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	if got, ok := series(t, name, labels...); !ok || got != want {
		t.Errorf("%s%v is %v (there: %v), want %v", name, labels, got, ok, want)
	}
}

func wantNoSeries(t *testing.T, name string, labels ...string) {
	t.Helper()
	if got, ok := series(t, name, labels...); ok {
		t.Errorf("%s%v is there: %v", name, labels, got)
	}
}

const (
	syncErrors = "garbagecollector_controller_resources_sync_error_total"
	refused    = "cannot list or watch a resource; its objects are neither collected nor taken for absent"
	again      = "a resource that could not be listed or watched works again"
)

func failing(verbs ...string) fakeapi.Fault {
	return func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "secrets" && slices.Contains(verbs, c.Verb) {
			return fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
		}
		return nil
	}
}

// If a resource cannot be listed, or cannot be watched, that is reported when it
// begins and when it ends, however many attempts there are in between. Meanwhile it
// shows in metrics.
func TestMonitorThatFailsIsReportedOnce(t *testing.T) {
	for verb, tries := range map[string]int{"list": 2, "watch": 3} { // the first failure of a watch is tolerated
		t.Run(verb, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.SetFault(failing(verb))
				before, _ := series(t, syncErrors)
				var log *logrustest.Hook
				w.Start(func(o *gc.Options) { log = logged(o) })
				w.UntilCalls(0, verb+" secrets Internal Server Error", tries)

				all := w.Collector().Monitors()
				i := slices.IndexFunc(all, func(m gc.MonitorState) bool { return m.Resource.Resource == "secrets" })
				if m := all[i]; m.State != gc.MonitorFailing || m.Err == nil || m.Since.IsZero() {
					t.Errorf("the monitor of secrets is not failing: %+v", m)
				}
				if got := w.Collector().Unlistable(); !slices.Equal(got, []string{"secrets"}) {
					t.Errorf("unlistable are %v, want secrets", got)
				}
				if got, want := entries(log, logrus.WarnLevel), []string{"secrets " + refused}; !slices.Equal(got, want) {
					t.Errorf("warnings were %q, want %q", got, want)
				}
				wantSeries(t, before+1, syncErrors)
				wantSeries(t, 1, "reap_gc_monitor_failing", "group", "", "resource", "secrets")
				wantNoSeries(t, "reap_gc_monitor_failing", "group", "", "resource", "pods")
				wantSeries(t, 1, "reap_gc_monitors", "state", "failing")
				wantSeries(t, float64(len(w.Resources())-1), "reap_gc_monitors", "state", "synced") // of all served resources
				for _, state := range []string{"syncing", "draining"} {
					wantSeries(t, 0, "reap_gc_monitors", "state", state)
				}

				w.SetFault(nil)
				w.Until("the end of the failure", func() bool { return len(w.Collector().Unlistable()) == 0 })
				w.delete("doomed", metav1.DeletePropagationBackground)
				w.wantEnd()
				if got := entries(log, logrus.WarnLevel); len(got) != 1 {
					t.Errorf("warnings were %q", got)
				}
				if got := entries(log, logrus.InfoLevel); !slices.Contains(got, "secrets "+again) {
					t.Errorf("infos were %q", got)
				}
				wantNoSeries(t, "reap_gc_monitor_failing", "group", "", "resource", "secrets")
				wantSeries(t, before+1, syncErrors)
				wantSeries(t, children, "reap_gc_resource_objects", "group", "", "resource", "secrets")
			})
		})
	}
}

// If a monitor's watch is refused once and the next attempt succeeds, that is not
// reported as a failure.
func TestOneRefusalOfARunningMonitorIsNotReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var log *logrustest.Hook
		w.Start(func(o *gc.Options) { log = logged(o) })
		w.Rest()
		calls := len(w.Calls(0))
		var refusals atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Resource == "secrets" && c.Verb == "watch" && refusals.Add(1) == 1 {
				return fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			}
			return nil
		})
		w.DropWatches("secrets")
		w.UntilCalls(calls, "watch secrets Internal Server Error", 1)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("the children's end", func() bool { return w.count("doomed") == 0 })
		if got := entries(log, logrus.WarnLevel); len(got) != 0 {
			t.Errorf("warnings were %q", got)
		}
		w.wantEnd()
	})
}

// A change of its definition makes a failing monitor retry at once. Nothing is
// logged if that does not help.
func TestChangedCRDMakesAFailingMonitorRetryAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		widgets := fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true}
		w.Define(widgets)
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Resource == "widgets" {
				return fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			}
			return nil
		})
		var log *logrustest.Hook
		w.Start(func(o *gc.Options) { log = logged(o) })
		for range 10 {
			calls := len(w.Calls(0))
			w.Define(widgets)
			w.UntilCalls(calls, "list widgets Internal Server Error", 1)
			if got := w.Collector().Unlistable(); !slices.Equal(got, []string{"widgets.example.com"}) {
				t.Errorf("unlistable are %v, want widgets.example.com", got)
			}
		}
		w.SetFault(nil)
		w.Define(widgets)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
		if got, want := entries(log, logrus.WarnLevel), []string{"widgets.example.com " + refused}; !slices.Equal(got, want) {
			t.Errorf("warnings were %q, want %q", got, want)
		}
	})
}

// Monitors and their metrics begin and end with definitions, and leave nothing
// behind.
func TestMonitorsEndWithTheirCRDs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var log *logrustest.Hook
		w.Start(func(o *gc.Options) { log = logged(o) })
		w.Rest()
		monitors, goroutines := len(w.Collector().Monitors()), observing()
		widgets := fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true}
		ghost := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "never-was"}
		fresh := true // whether the monitor of the previous round has gone
		for round := range 20 {
			w.Define(widgets)
			w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: "dangling", OwnerReferences: []metav1.OwnerReference{ghost}}))
			w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: "kept"}))
			w.Until("the end of what dangles", func() bool { return w.count("never-was") == 0 })
			// The answer to the delete may come after its event.
			w.Until("the count of what was collected", func() bool {
				n, _ := series(t, "reap_gc_objects_collected_total", "group", "example.com", "resource", "widgets", "policy", "Background")
				return n == 1 || n > 1 && !fresh
			})
			for _, policy := range []string{"Foreground", "Orphan"} {
				wantSeries(t, 0, "reap_gc_objects_collected_total", "group", "example.com", "resource", "widgets", "policy", policy)
			}
			w.must(w.Delete("customresourcedefinitions", "", "widgets.example.com", metav1.DeleteOptions{}))
			if fresh = round%2 == 0; !fresh {
				continue // the next monitor begins while this one ends
			}
			w.Until("the monitor's end", func() bool { return len(w.Collector().Monitors()) == monitors })
			wantNoSeries(t, "reap_gc_objects_collected_total", "group", "example.com")
			wantNoSeries(t, "reap_gc_resource_objects", "group", "example.com")
		}
		w.Until("the last monitor's end", func() bool { return len(w.Collector().Monitors()) == monitors })
		w.Until("the end of its goroutines", func() bool { return observing() <= goroutines })
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
		if got := entries(log, logrus.WarnLevel); len(got) != 0 {
			t.Errorf("warnings were %q", got)
		}
	})
}

// observing counts the goroutines of monitors.
func observing() int {
	buffer := make([]byte, 1<<22)
	n := 0
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "pkg/gc/observe.") || strings.Contains(stack, "client-go/tools/cache.") {
			n++
		}
	}
	return n
}

// A monitor of another version takes over the count.
func TestObjectCountOutlivesAChangeOfVersion(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		widgets := fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true}
		w.Define(widgets)
		w.Start(nil)
		dangle := func(name string) {
			t.Helper()
			nobody := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: types.UID("nobody-of-" + name)}
			w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{nobody}}))
			w.Until("the end of "+name, func() bool { return w.count("nobody") == 0 })
			w.Rest()
		}
		dangle("first")
		widgets.Versions = []string{"v2", "v1"}
		w.Define(widgets)
		w.Until("the monitor of the new version", func() bool {
			return slices.ContainsFunc(w.Collector().Monitors(), func(m gc.MonitorState) bool { return m.Resource.Resource == "widgets" && m.Resource.Version == "v2" })
		})
		dangle("second")
		wantSeries(t, 2, "reap_gc_objects_collected_total", "group", "example.com", "resource", "widgets", "policy", "Background")
	})
}

// Discovery that fails counts as a failed synchronization each time, and is logged
// once.
func TestDiscoveryThatFailsIsReportedOnce(t *testing.T) {
	for name, path := range map[string]string{"wholly": "apis", "in part": "apis/apps/v1"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var log *logrustest.Hook
				w.Start(func(o *gc.Options) { log = logged(o) })
				w.Rest()
				calls := len(w.Calls(0))
				before, _ := series(t, syncErrors)
				w.Undiscoverable(true)
				w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
					if c.Verb == "discover" && c.Detail == path {
						return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
					}
					return nil
				})
				w.Define(fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true})
				w.UntilCalls(calls, "discover "+path+" Service Unavailable", 3)
				w.Until("failures counted", func() bool {
					n, _ := series(t, syncErrors)
					return n >= before+3
				})
				if got := entries(log, logrus.WarnLevel); len(got) != 1 {
					t.Errorf("warnings were %q", got)
				}
				wantGroups := 0.0
				if path != "apis" {
					wantGroups = 1
				}
				wantSeries(t, wantGroups, "reap_gc_undiscovered_groups")
				w.Undiscoverable(false)
				w.SetFault(nil)
				w.Define(fakeapi.Resource{Group: "example.com", Name: "gadgets", Kind: "Gadget", Versions: []string{"v1"}, Namespaced: true})
				w.delete("doomed", metav1.DeletePropagationBackground)
				w.wantEnd()
				wantSeries(t, 0, "reap_gc_undiscovered_groups")
				if got := entries(log, logrus.InfoLevel); !slices.Contains(got, "all API versions can be discovered again") {
					t.Errorf("infos were %q", got)
				}
			})
		})
	}
}

// The age of the last sweep is reported only if sweeps run.
func TestAgeOfTheLastSweepIsReportedOnlyIfSweepsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		wantNoSeries(t, "reap_gc_seconds_since_sweep")
		w.Start(nil)
		wantNoSeries(t, "reap_gc_seconds_since_sweep")
		w.Stop()

		var sweeping atomic.Bool
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Resource == "pods" && c.Verb == "list" && sweeping.Load() {
				return fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			}
			return nil
		})
		began := time.Now()
		w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
		sweeping.Store(true) // the first lists are over
		calls := len(w.Calls(0))
		w.UntilCalls(calls, "list pods Internal Server Error", 3)
		// None of these sweeps was complete. The series is read before the clock is.
		since, there := series(t, "reap_gc_seconds_since_sweep")
		if now := time.Since(began).Seconds(); !there || since > now || since < 0.1 {
			t.Errorf("the last sweep was %v ago (there: %v), %v after the start", since, there, now)
		}
		w.SetFault(nil)
		w.Until("a whole sweep", func() bool {
			after, _ := series(t, "reap_gc_seconds_since_sweep")
			return after < since
		})
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}

// Writes that fail because the object has changed are counted as conflicts.
func TestConflictsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		before, there := series(t, "reap_gc_conflicts_total", "verb", "delete")
		if !there {
			before = 0 // no collector has been made in this process yet
		}
		var deletes atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if single(c, "delete") && c.Name == "doomed-pods-0" && deletes.Add(1) == 1 {
				if err := w.Update("pods", "ns", c.Name, func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("a second delete", func() bool { return deletes.Load() > 1 })
		w.wantEnd()
		wantSeries(t, before+1, "reap_gc_conflicts_total", "verb", "delete")
		if _, there := series(t, "reap_gc_conflicts_total", "verb", "patch"); !there {
			t.Error("no conflicts of patches are counted")
		}
	})
}
