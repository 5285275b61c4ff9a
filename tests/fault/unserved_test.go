package fault

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/observe"
	"github.com/reap-dev/reap/tests/fakeapi"
)

var widgets = fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true}

// custom creates owners, each with a widget that blocks it.
func (w *world) custom(owners ...string) {
	w.t.Helper()
	blocks := true
	for _, owner := range owners {
		w.must(w.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: owner}))
		w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: owner + "-widget", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner + "-1"), BlockOwnerDeletion: &blocks},
		}}))
	}
}

// view returns the graph's view of an owner.
func (w *world) view(owner string) graph.View {
	v, _ := w.Collector().Graph().View(graph.Key{Resource: (&fakeapi.Resource{Name: "configmaps"}).GroupResource(), UID: types.UID(owner + "-1")})
	return v
}

// untilSuspended waits until widgets are suspended with this number of objects.
func (w *world) untilSuspended(objects int) {
	w.t.Helper()
	w.Until("widgets are suspended", func() bool {
		n, is := w.Collector().Graph().Suspended()[widgets.GroupResource()]
		return is && n == objects
	})
}

// untilOrphaningWaits waits until users are told what an orphaning waits for.
func (w *world) untilOrphaningWaits(owner, what string) {
	w.t.Helper()
	w.Until("users hear what the orphaning of "+owner+" waits for", func() bool {
		for _, e := range w.Warnings() {
			if e.InvolvedObject.Name == owner && e.Reason == "OrphaningWaits" && strings.Contains(e.Message, what) && strings.Contains(e.Message, "--gc-orphan-timeout") {
				return true
			}
		}
		return false
	})
	if !w.has(owner) {
		w.t.Errorf("the orphaning of %s did not wait", owner)
	}
}

// hideWidgetsOf starts a collector that has seen a widget of each owner, and that no widget is served any more.
func (w *world) hideWidgetsOf(owners ...string) {
	w.t.Helper()
	w.Define(widgets)
	w.custom(owners...)
	w.Start(nil)
	w.Rest()
	w.SetServed("widgets", false)
	w.untilSuspended(len(owners))
}

// wantOrphaned fails unless the owner is gone and its widget exists without owners.
func (w *world) wantOrphaned(owner string) {
	w.t.Helper()
	w.Until("the end of "+owner, func() bool { return !w.has(owner) })
	i := slices.IndexFunc(w.Objects(), func(o fakeapi.Object) bool { return o.Name == owner+"-widget" })
	if i < 0 {
		w.t.Errorf("the orphaned dependent of %s is gone", owner)
	} else if n := len(w.Objects()[i].OwnerReferences); n > 0 {
		w.t.Errorf("the orphaned dependent of %s has %d owners", owner, n)
	}
}

// A CRD no longer serves any version, and its objects still exist. They hold their owners
// as if they could be seen, also after a restart of the collector, until a version is
// served again.
func TestObjectsThatAreNoLongerServedHoldTheirOwners(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.hideWidgetsOf("orphaned", "later", "foreground")
		w.delete("foreground", metav1.DeletePropagationForeground)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.untilOrphaningWaits("orphaned", "widgets.example.com")
		w.Until("the foreground deletion waits", func() bool { return w.view("foreground").Blocking > 0 })
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("the end of what has nothing to do with it", func() bool { return w.count("doomed") == 0 && w.count("ghost") == 0 })
		if !w.has("foreground") || w.count("foreground") != 1 {
			t.Error("the foreground deletion did not wait")
		}

		// Another collector, which has never seen a widget.
		w.Stop()
		w.Start(nil)
		w.delete("later", metav1.DeletePropagationOrphan)
		w.untilOrphaningWaits("later", "widgets.example.com")
		w.SetServed("widgets", true)
		w.wantOrphaned("orphaned")
		w.wantOrphaned("later")
		w.wantEnd()
	})
}

// The objects of a resource that is served again were unseen meanwhile. The collector
// notices which are gone and takes over those that exist.
func TestChangesAreNoticedOnceAResourceIsServedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.hideWidgetsOf("foreground", "orphaned", "kept")
		w.delete("foreground", metav1.DeletePropagationForeground)
		w.delete("orphaned", metav1.DeletePropagationOrphan)
		w.Until("the foreground deletion waits", func() bool { return w.view("foreground").Blocking > 0 })
		// Nothing shows the deletion of this one.
		w.must(w.Delete("widgets", "ns", "kept-widget", metav1.DeleteOptions{}))
		calls := len(w.Calls(0))
		w.SetServed("widgets", true)
		w.Until("the foreground deletion's end", func() bool { return !w.has("foreground") && w.count("foreground") == 0 })
		w.wantOrphaned("orphaned")
		w.UntilCalls(calls, "get widgets ns/kept-widget Not Found", 1)
		w.Until("nothing is suspended", func() bool { return len(w.Collector().Graph().Suspended()) == 0 })
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
		if !w.has("kept") {
			t.Error("an owner is gone")
		}
	})
}

// If its CRD is deleted, a resource is gone for good, even if nobody has seen the
// deletion of its objects.
func TestDeletedCRDNoLongerHoldsDeletions(t *testing.T) {
	for name, unseen := range map[string]bool{"seen": false, "unseen": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Define(widgets)
				w.custom("foreground", "orphaned")
				w.Start(nil)
				w.Rest()
				w.SetServed("widgets", false)
				w.untilSuspended(2)
				w.delete("foreground", metav1.DeletePropagationForeground)
				w.delete("orphaned", metav1.DeletePropagationOrphan)
				w.untilOrphaningWaits("orphaned", "widgets.example.com")
				if unseen {
					w.Blind("customresourcedefinitions", true)
					w.LoseEvents(func(r *fakeapi.Resource, _ *metav1.ObjectMeta) bool { return r.Name == "customresourcedefinitions" })
				}
				w.must(w.Delete("customresourcedefinitions", "", "widgets.example.com", metav1.DeleteOptions{}))
				w.LoseEvents(nil)
				w.Define(fakeapi.Resource{Group: "example.com", Name: "gadgets", Kind: "Gadget", Versions: []string{"v1"}, Namespaced: true})
				w.Until("the end of both deletions", func() bool { return !w.has("foreground") && !w.has("orphaned") })
				w.delete("doomed", metav1.DeletePropagationBackground)
				w.wantEnd()
			})
		})
	}
}

// The resources of a deleted APIService are forgotten. If it is created again at once, no
// object is lost.
func TestResourcesOfADeletedAPIServiceAreForgotten(t *testing.T) {
	for name, again := range map[string]bool{"for good": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				served := widgets
				served.Aggregated = true
				w.Define(served)
				w.custom("foreground", "orphaned")
				w.Start(nil)
				w.Rest()
				w.must(w.Delete("apiservices", "", "v1.example.com", metav1.DeleteOptions{}))
				if again {
					w.Until("the monitor of widgets ends", func() bool { return w.monitor("widgets") == observe.Draining })
					w.must(w.Create("apiservices", metav1.ObjectMeta{Name: "v1.example.com"}))
				} else {
					w.Until("the end of the monitor", func() bool { return w.monitor("widgets") == "" })
				}
				w.delete("foreground", metav1.DeletePropagationForeground)
				w.delete("orphaned", metav1.DeletePropagationOrphan)
				w.Until("the end of both deletions", func() bool { return !w.has("foreground") && !w.has("orphaned") })
				if again {
					w.wantOrphaned("orphaned")
				} else if n := w.count("foreground"); n != 1 {
					t.Errorf("%d objects that nobody serves are left", n)
				}
				if left := w.Collector().Graph().Suspended(); len(left) > 0 {
					t.Errorf("%v is suspended", left)
				}
				w.delete("doomed", metav1.DeletePropagationBackground)
				w.wantEnd()
			})
		})
	}
}

// monitor returns the state of a resource's monitor; empty if there is none.
func (w *world) monitor(resource string) observe.State {
	for _, m := range w.Collector().Monitors() {
		if m.Resource.Resource == resource {
			return m.State
		}
	}
	return ""
}
