package fault

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/observe"
	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

// Two collectors run at once, as if one took over before the other noticed. Each deletion happens once, with its policy.
func TestTwoCollectorsAtOnceDoEverythingOnce(t *testing.T) {
	rig.InBubble(t, func(t *testing.T, r *rig.Rig) {
		w := populate(t, r)
		w.Start(nil)
		other := w.Beside()
		other.Start(nil)
		defer other.Stop()
		w.deleteEveryWay()
		w.wantEveryWay()
		other.Rest()
		// One of them crashes in the middle of a deletion.
		w.family("again")
		w.delete("again", metav1.DeletePropagationForeground)
		other.Crash()
		w.wantEnd()
		if w.has("again") || w.count("again") > 0 {
			t.Error("a deletion in the foreground has not ended")
		}
		w.wantOneDeletionEach()
	})
}

// wantOneDeletionEach fails unless the collectors have deleted objects, and no object twice.
func (w *world) wantOneDeletionEach() {
	w.t.Helper()
	times := map[string]int{}
	for _, c := range w.Calls(0) {
		if c.Verb == "delete" && c.Code < 300 {
			times[c.Resource+" "+c.Name]++
		}
	}
	for object, n := range times {
		if n != 1 {
			w.t.Errorf("%s was deleted %d times", object, n)
		}
	}
	// The children of doomed, ghost and again, and what deleteEveryWay leaves to the collectors.
	if len(times) < 3*2*children {
		w.t.Errorf("the collectors have deleted only %d objects", len(times))
	}
}

// One verb on one resource is forbidden to the collector. Nothing else waits for it, no owned object is deleted, and the
// collector does the work once it is allowed to.
func TestForbiddenVerbHoldsUpNothingElse(t *testing.T) {
	for _, resource := range []string{"pods", "secrets", "configmaps"} {
		for _, verb := range []string{"get", "list", "watch", "delete", "patch"} {
			t.Run(verb+" "+resource, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					forbidden := func(c fakeapi.Call) http.HandlerFunc {
						if c.Verb == verb && c.Resource == resource {
							return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
						}
						return nil
					}
					unseen := verb == "list" || verb == "watch"
					w.Blind(resource, unseen)
					w.SetFault(forbidden)
					w.Start(nil)
					calls := len(w.Calls(0))
					w.deleteEveryWay()
					w.Until("the end of the others", func() bool { return w.dangling(resource) == 0 })
					if unseen {
						w.UntilCalls(0, verb+" "+resource+" Forbidden", 2)
					}
					w.wantWhole("living")
					w.Check()
					for _, c := range w.Calls(calls) {
						if c.Verb == "delete" && c.Name == "shared" {
							t.Errorf("%s, though it has an owner", c)
						}
					}
					w.Blind(resource, false)
					w.SetFault(nil)
					w.wantEveryWay()
				})
			})
		}
	}
}

// dangling counts the dependents of the owner that is deleted in the background, except those of one resource.
func (w *world) dangling(but string) (n int) {
	for _, o := range w.Objects() {
		if o.Resource.Name != but && slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == "doomed" }) {
			n++
		}
	}
	return n
}

// A kind is defined again with the other scope, while objects of the old definition are owners. Those owners are gone,
// and the names in their dependents' references now refer to other objects, or to none.
func TestReferencesFollowAKindThatChangesItsScope(t *testing.T) {
	for _, how := range []struct {
		name               string
		namespaced, unseen bool
	}{{"to the cluster", true, false}, {"to namespaces", false, false}, {"to the cluster, unseen", true, true}, {"to namespaces, unseen", false, true}} {
		namespaced := how.namespaced
		t.Run(how.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				ref := func(nth string) metav1.OwnerReference {
					return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: types.UID("owner-" + nth)}
				}
				at := func(namespaced bool) string {
					if namespaced {
						return "ns"
					}
					return ""
				}
				served := widgets
				served.Namespaced = namespaced
				w.Define(served)
				w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: at(namespaced), Name: "owner"}))
				w.create("pods", "of-the-first", ref("1"))
				w.create("pods", "moved", ref("1"))
				w.Start(nil)
				w.Rest()
				w.wantOwners("pods", "of-the-first", "owner-1")

				requested := make(chan struct{}) // closed when the users are done; the collector's writes wait until then
				w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
					if how.unseen && (c.Verb == "discover" || c.Resource == "widgets" && (c.Verb == "watch" || c.Verb == "list")) {
						return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
					}
					if single(c, "delete") || single(c, "patch") {
						<-requested
					}
					return nil
				})
				if how.unseen {
					w.DropWatches("widgets")
					w.Until("the monitor fails", func() bool { return w.monitor("widgets") == observe.Failing })
				}
				w.must(w.Delete("customresourcedefinitions", "", "widgets.example.com", metav1.DeleteOptions{}))
				served.Namespaced = !namespaced
				w.Define(served)
				w.Compact() // if the deletion of the first objects was not seen, it never will be
				w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: at(!namespaced), Name: "owner"}))
				w.must(w.Update("pods", "ns", "moved", func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{ref("2")} }))
				w.create("pods", "of-the-second", ref("2"))
				w.must(w.Create("nodes", metav1.ObjectMeta{Name: "later", OwnerReferences: []metav1.OwnerReference{ref("2")}}))
				w.delete("doomed", metav1.DeletePropagationBackground)
				close(requested)
				w.wantEnd()
				w.wantOwners("pods", "moved", "owner-2")
				w.wantOwners("pods", "of-the-second", "owner-2")
				left := func(want ...string) {
					t.Helper()
					var have []string
					for _, o := range w.Objects() {
						if slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == "owner" }) {
							have = append(have, o.Name)
						}
					}
					if !slices.Equal(have, want) {
						t.Errorf("left are %v, want %v", have, want)
					}
				}
				left("moved", "of-the-second", "later")
				w.must(w.Delete("widgets", at(!namespaced), "owner", metav1.DeleteOptions{}))
				w.wantEnd()
				if namespaced {
					left()
				} else {
					left("later") // a namespaced object cannot own a node
				}
			})
		})
	}
}
