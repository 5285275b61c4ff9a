package fault

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/observe"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// undiscoverable makes the discovery of API versions fail.
func (w *world) undiscoverable(versions ...string) {
	w.Undiscoverable(true)
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "discover" && slices.Contains(versions, c.Detail) {
			return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
		return nil
	})
}

// One version of a group has never been discovered. The other is monitored, and dangling
// objects are collected. Orphanings wait, since the first version may serve another
// resource; an event names the APIService. The preferred version takes over when it can
// be discovered.
func TestOrphaningWaitsForAVersionThatWasNeverDiscovered(t *testing.T) {
	for name, end := range map[string]func(*world){
		"discovered": func(w *world) { w.SetFault(nil) },
		"its APIService is deleted": func(w *world) {
			w.must(w.Delete("apiservices", "", "v2.example.com", metav1.DeleteOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				served := widgets
				served.Versions, served.Aggregated = []string{"v2", "v1"}, true
				w.Define(served)
				w.custom("orphaned", "deleted")
				w.undiscoverable("apis/example.com/v2")
				w.Start(nil)
				if got := w.monitor("widgets"); got != observe.Synced {
					t.Errorf("the monitor at the version that can be discovered is %q", got)
				}
				w.delete("orphaned", metav1.DeletePropagationOrphan)
				w.delete("deleted", metav1.DeletePropagationBackground)
				w.Until("the end of what dangles", func() bool { return w.count("deleted") == 0 })
				w.untilOrphaningWaits("orphaned", "APIService v2.example.com")
				end(w)
				// Discovery runs again when something changes.
				w.Define(fakeapi.Resource{Group: "other.example.com", Name: "gadgets", Kind: "Gadget", Versions: []string{"v1"}, Namespaced: true})
				w.wantOrphaned("orphaned")
				w.Undiscoverable(false)
				w.delete("doomed", metav1.DeletePropagationBackground)
				w.wantEnd()
			})
		})
	}
}

// Objects of metrics APIs have no owners: an orphaning does not wait for them.
func TestOrphaningDoesNotWaitForMetricsAPIs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Define(widgets)
		w.custom("orphaned")
		var failing []string
		for _, group := range []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"} {
			w.Define(fakeapi.Resource{Group: group, Name: group, Kind: "Metric", Versions: []string{"v1"}, Aggregated: true})
			failing = append(failing, "apis/"+group+"/v1")
		}
		w.undiscoverable(failing...)
		w.Start(nil)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.wantOrphaned("orphaned")
		if warnings := w.Warnings(); len(warnings) > 0 {
			t.Errorf("users were told %s: %s", warnings[0].Reason, warnings[0].Message)
		}
		w.Undiscoverable(false)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}

// A known version that fails for a while does no harm: its monitor stays while other
// versions of its group can be discovered.
func TestMonitorStaysWhileItsVersionCannotBeDiscovered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		served := widgets
		served.Versions = []string{"v2", "v1"}
		w.Define(served)
		w.custom("orphaned")
		w.Start(nil)
		w.Rest()
		calls := len(w.Calls(0))
		w.undiscoverable("apis/example.com/v2")
		w.Define(fakeapi.Resource{Group: "example.com", Name: "gadgets", Kind: "Gadget", Versions: []string{"v1"}, Namespaced: true})
		w.UntilCalls(calls, "discover apis/example.com/v2 Service Unavailable", 2)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.wantOrphaned("orphaned")
		w.Until("the new resource of the group", func() bool { return w.monitor("gadgets") == observe.Synced })
		for _, m := range w.Collector().Monitors() {
			if m.Resource.Resource == "widgets" && (m.Resource.Version != "v2" || m.State != observe.Synced) {
				t.Errorf("the monitor of widgets is %+v, want it synced at v2", m)
			}
		}
		w.Undiscoverable(false)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}
