package fault

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// The rest of a list has been compacted away. The collector must not take the first
// half for the whole list.
//
// client-go then lists everything without pages, so each resource expires once.
func TestExpiredListIsReadAgainAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.SetPageSize(2)
		var expired atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Verb == "list" && c.Query.Get("continue") != "" && expired.Add(1) <= 2 {
				return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("expired pages", func() bool { return expired.Load() >= 2 })
		w.wantEnd()
	})
}

// Watches are dropped, and their versions compacted, without losing a deletion.
func TestNoDeletionIsLostWhenWatchesEnd(t *testing.T) {
	for name, compact := range map[string]bool{"dropped": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Start(nil)
				w.Rest()
				calls := len(w.Calls(0))
				// No watch runs while the owner is deleted.
				w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
					if c.Verb == "watch" {
						return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
					}
					return nil
				})
				w.DropWatches("")
				w.UntilCalls(calls, "watch configmaps", 1)
				w.delete("doomed", metav1.DeletePropagationBackground)
				if compact {
					w.Compact()
				}
				w.wantWhole("living")
				w.wantEnd()
			})
		})
	}
}

// emptyLists makes a resource, or every resource if the name is empty, be listed
// again with empty lists. It returns the number of calls made before.
func (w *world) emptyLists(resource string) (calls int) {
	calls = len(w.Calls(0))
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" && (resource == "" || c.Resource == resource) {
			return w.EmptyList
		}
		return nil
	})
	w.Compact()
	w.DropWatches(resource)
	return calls
}

// A server that returns empty lists for all resources must not cause a deletion.
func TestEmptyListsDeleteNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Start(nil)
		w.Rest()
		calls := w.emptyLists("")
		for _, call := range []string{"get configmaps ns/living", "get pods ns/living-pods-0", "get secrets ns/living-secrets-0"} {
			w.UntilCalls(calls, call, 1)
		}
		w.Rest()
		w.wantWhole("living")
		w.wantWhole("doomed")
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}

// A wrong list hides an object, which a live read finds. Then the object is deleted
// during a gap of the watch. The collector must notice that the next list lacks it.
func TestDeletionMissedAfterAWrongListIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Start(nil)
		w.Rest()
		calls := w.emptyLists("configmaps")
		w.UntilCalls(calls, "get configmaps ns/doomed", 1)
		w.Rest()
		calls = len(w.Calls(0))
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			switch {
			case c.Verb == "watch":
				return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			case c.Verb == "list" && c.Resource == "configmaps":
				return w.EmptyList // still: no correct list shows the owner before its deletion
			}
			return nil
		})
		w.DropWatches("configmaps")
		w.UntilCalls(calls, "watch configmaps", 1)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Compact()
		w.wantEnd()
	})
}

// One resource that cannot be listed stops nothing else. Foreground deletion does not
// wait for it; orphaning does.
func TestUnlistableResourceHoldsOnlyOrphaning(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, owner := range []string{"foreground", "orphaned"} {
			w.family(owner)
		}
		w.Blind("secrets", true)
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Resource == "secrets" {
				return fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.delete("foreground", metav1.DeletePropagationForeground)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.UntilCalls(0, "list secrets ns", 3)
		w.Until("the foreground deletion's end", func() bool { return !w.has("foreground") })
		w.Until("the readable children's end", func() bool { return w.count("doomed") == children && w.count("ghost") == children })
		w.wantWhole("living")
		if !w.has("orphaned") {
			t.Error("the orphaning did not wait")
		}
		w.Blind("secrets", false)
		w.wantEnd()
		if w.has("orphaned") || w.count("orphaned") > 0 {
			t.Error("the orphaning did not end, or not well")
		}
		left := 0
		for _, o := range w.Objects() {
			if len(o.OwnerReferences) == 0 && o.Resource.Name != "configmaps" {
				left++
			}
		}
		if left != 2*children {
			t.Errorf("%d of %d orphaned children are left", left, 2*children)
		}
	})
}

func (w *world) has(owner string) bool {
	for _, o := range w.Objects() {
		if o.Resource.Name == "configmaps" && o.Name == owner {
			return true
		}
	}
	return false
}

// If some groups cannot be discovered, what is known about them is kept.
func TestGroupsThatCannotBeDiscoveredStayKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.must(w.Create("deployments", metav1.ObjectMeta{Namespace: "ns", Name: "web"}))
		web := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web-1"}
		w.must(w.Create("replicasets", metav1.ObjectMeta{Namespace: "ns", Name: "rs", OwnerReferences: []metav1.OwnerReference{web}}))
		w.Start(nil)
		w.Rest()
		calls := len(w.Calls(0))
		w.Undiscoverable(true)
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Verb == "discover" && c.Detail == "apis/apps/v1" {
				return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			}
			return nil
		})
		w.Define(fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true})
		w.UntilCalls(calls, "discover apis/apps/v1 Service Unavailable", 2)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Rest()
		if w.count("web") != 1 {
			t.Error("a dependent of a living owner in the failing group went")
		}
		w.Undiscoverable(false)
		w.wantEnd()
	})
}

// A group that was never discovered may hold dependents. If their owner were
// released, they would be collected once the group is discovered after the next
// start.
func TestOrphaningWaitsForAGroupThatWasNeverDiscovered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.family("orphaned")
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "orphaned", UID: "orphaned-1"}
		w.must(w.Create("replicasets", metav1.ObjectMeta{Namespace: "ns", Name: "rs", OwnerReferences: []metav1.OwnerReference{owner}}))
		w.Undiscoverable(true)
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Verb == "discover" && c.Detail == "apis/apps/v1" {
				return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			}
			return nil
		})
		w.Start(nil)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.Until("the event", func() bool { return len(w.Warnings()) > 0 })
		if e := w.Warnings()[0]; e.Reason != "OrphaningWaits" || !strings.Contains(e.Message, "apps") {
			t.Errorf("users are told %s: %s", e.Reason, e.Message)
		}
		if !w.has("orphaned") {
			t.Error("the orphaning did not wait")
		}
		w.Stop()
		w.Undiscoverable(false)
		w.SetFault(nil)
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
		if w.has("orphaned") || w.count("orphaned") > 0 {
			t.Error("the orphaning did not end, or not well")
		}
		if !slices.ContainsFunc(w.Objects(), func(o fakeapi.Object) bool { return o.Name == "rs" }) {
			t.Error("an orphaned dependent is gone")
		}
	})
}
