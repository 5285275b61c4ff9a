package fault

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// The sweep finds a deletion, a change and a creation whose events no watch shows.
// The one wait here is the sweep's own: a difference has to last.
func TestSweepRepairsLostEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.family("changed")
		w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
		w.Rest()
		w.LoseEvents(func(*fakeapi.Resource, *metav1.ObjectMeta) bool { return true })
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.orphan("late", 1)
		for _, resource := range []string{"pods", "secrets"} {
			w.must(w.Update(resource, "ns", "changed-"+resource+"-0", func(m *metav1.ObjectMeta) {
				m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = "doomed", "doomed-1"
			}))
		}
		w.LoseEvents(nil)
		w.wantEnd()
		if n := w.count("late"); n > 0 {
			t.Errorf("%d of the objects whose beginning was lost are left", n)
		}
		if n := w.count("changed"); n != 2*(children-1) {
			t.Errorf("%d children of an owner that exists are left", n)
		}
	})
}

// A proxy's 404 does not prove that an object is gone. A sweep that gets one is not
// complete, and the next sweep reads the suspected objects again.
func TestSweepDoesNotBelieveAProxy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
		w.Rest()
		calls := len(w.Calls(0))
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if single(c, "get") && c.Name == "living-pods-0" {
				return fakeapi.NotServed
			}
			return nil
		})
		w.LoseEvents(func(*fakeapi.Resource, *metav1.ObjectMeta) bool { return true })
		w.must(w.Update("pods", "ns", "living-pods-0", func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }))
		w.LoseEvents(nil)
		// A difference has to last for five seconds.
		w.UntilCalls(calls, "get pods ns/living-pods-0 Not Found", 2)
		if since, _ := series(t, "reap_gc_seconds_since_sweep"); since < 8 {
			t.Errorf("the last complete sweep was %v s ago", since)
		}
		w.SetFault(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}
