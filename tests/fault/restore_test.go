package fault

import (
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// endIsSeen deletes an owner while the collector is paused and waits until the collector
// has proof of that. It returns an earlier revision, in which the owner exists.
func (w *world) endIsSeen(owner string) (backup int64) {
	w.t.Helper()
	w.Rest()
	backup = w.Revision()
	w.Pause(true)
	w.delete(owner, metav1.DeletePropagationBackground)
	w.Rest()
	k := graph.Key{Resource: (&fakeapi.Resource{Name: "pods"}).GroupResource(), UID: "living-pods-0-1"}
	if v, ok := w.Collector().Graph().View(k); !ok || v.Owners[0].Fact.State != graph.Gone {
		w.t.Fatalf("nothing is proved of %s: %+v", owner, v)
	}
	return backup
}

// wantNewBeginning starts another collector and fails unless it finds that nothing
// dangles.
func (w *world) wantNewBeginning() {
	w.t.Helper()
	w.SetFault(nil)
	w.Pause(false)
	w.Start(nil)
	w.delete("doomed", metav1.DeletePropagationBackground)
	w.wantEnd()
}

// A backup is restored and no watch ends. The sweep is the first to notice, and has the
// resource listed again. The new monitor knows the revisions that the old one had seen.
func TestNewMonitorNoticesThatTheStoreWentBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
		w.Restore(w.endIsSeen("living"))
		w.UntilStoreWentBack()
		w.wantNewBeginning()
	})
}

// A discovery that hangs does not delay the collector's end. If it did, the collector
// would go on deleting on proof that no longer holds.
func TestHangingDiscoveryDoesNotDelayTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Start(func(o *gc.Options) { o.Config.Timeout = time.Hour })
		backup := w.endIsSeen("living")
		calls := len(w.Calls(0))
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			switch c.Verb {
			case "discover":
				return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			case "watch":
				return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
			}
			return nil
		})
		w.Define(fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true})
		w.Until("a discovery", func() bool {
			return slices.ContainsFunc(w.Calls(calls), func(c fakeapi.Call) bool { return c.Verb == "discover" })
		})
		w.Restore(backup)
		w.DropWatches("configmaps")
		w.UntilStoreWentBack()
		w.wantNewBeginning()
	})
}

// restoreWidgets lets the collector see the deletion of an owner that an aggregated
// server serves, and then restores that server's store. The fault lasts.
func (w *world) restoreWidgets(fault fakeapi.Fault) {
	w.t.Helper()
	served := widgets
	served.Aggregated = true
	w.Define(served)
	w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: "owner"}))
	w.must(w.Create("pods", metav1.ObjectMeta{Namespace: "ns", Name: "child", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: "owner-1"},
	}}))
	w.custom("orphaned")
	w.SetFault(fault)
	w.Start(nil)
	w.Rest()
	w.delete("orphaned", metav1.DeletePropagationOrphan)
	w.wantOrphaned("orphaned")
	w.Rest()
	backup := w.Revision()
	w.Pause(true)
	w.must(w.Delete("widgets", "ns", "owner", metav1.DeleteOptions{}))
	w.Rest()
	k := graph.Key{Resource: (&fakeapi.Resource{Name: "pods"}).GroupResource(), UID: "child-1"}
	if v, ok := w.Collector().Graph().View(k); !ok || v.Owners[0].Fact.State != graph.Gone {
		w.t.Fatalf("nothing is proved of the child's owner: %+v", v)
	}
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "widgets" && c.Verb == "watch" {
			return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
		}
		return fault(c)
	})
	w.StartOver("widgets", backup)
	w.DropWatches("widgets")
}

// The store of an aggregated server was restored, so proof about its objects is dropped.
// The collector does not restart: it would forget whose dependents were orphaned.
func TestRestoredAggregatedServerInvalidatesItsProof(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.restoreWidgets(func(fakeapi.Call) http.HandlerFunc { return nil })
		w.Until("nothing is proved of the child's owner", func() bool {
			v, ok := w.Collector().Graph().View(graph.Key{Resource: (&fakeapi.Resource{Name: "pods"}).GroupResource(), UID: "child-1"})
			return ok && v.Owners[0].Fact.State == graph.Unproved && v.Owners[0].Observed != nil
		})
		w.SetFault(nil)
		w.Pause(false)
		late := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "orphaned", UID: "orphaned-1"}
		w.must(w.Create("secrets", metav1.ObjectMeta{Namespace: "ns", Name: "late", OwnerReferences: []metav1.OwnerReference{late}}))
		w.Until("the latecomer is freed", func() bool { return w.count("orphaned") == 0 })
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
		for _, name := range []string{"owner", "child", "late"} {
			if !slices.ContainsFunc(w.Objects(), func(o fakeapi.Object) bool { return o.Name == name }) {
				t.Errorf("%s is gone", name)
			}
		}
	})
}

// If it is unknown whether another server serves the resource, the API server's own store
// may have been restored.
func TestResourceVersionThatStartsOverMayMeanARestoredStore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Blind("apiservices", true)
		w.restoreWidgets(func(c fakeapi.Call) http.HandlerFunc {
			if c.Resource == "apiservices" {
				return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			}
			return nil
		})
		w.UntilStoreWentBack()
	})
}
