package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

// These tests cover the three failure patterns of controllers in Sieve (Sun et al., Automatic Reliability Testing for
// Cluster Management Controllers, OSDI 2022): a crash between two writes, a view that goes back in time at a restart, and
// an event that is never observed.

// inBubble runs a test on the usual world in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	rig.InBubble(t, func(t *testing.T, r *rig.Rig) { test(t, populate(t, r)) })
}

// cm returns a reference to the nth ConfigMap of a name; its UID contains the number.
func cm(name string, nth int, blocks bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, nth)), BlockOwnerDeletion: &blocks}
}

func (w *world) create(resource, name string, owners ...metav1.OwnerReference) {
	w.t.Helper()
	w.must(w.Create(resource, metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: owners}))
}

// object returns the object of a name in namespace ns; ok is false if there is none.
func (w *world) object(resource, name string) (o fakeapi.Object, ok bool) {
	i := slices.IndexFunc(w.Objects(), func(o fakeapi.Object) bool {
		return o.Resource.Name == resource && o.Namespace == "ns" && o.Name == name
	})
	if i < 0 {
		return o, false
	}
	return w.Objects()[i], true
}

// wantOwners fails unless the object exists, is not being deleted, and has owners with exactly these UIDs.
func (w *world) wantOwners(resource, name string, uids ...types.UID) {
	w.t.Helper()
	o, ok := w.object(resource, name)
	if !ok || o.DeletionTimestamp != nil {
		w.t.Errorf("%s %s is gone or going", resource, name)
		return
	}
	var have []types.UID
	for _, r := range o.OwnerReferences {
		have = append(have, r.UID)
	}
	if !slices.Equal(have, uids) {
		w.t.Errorf("%s %s has the owners %v, want %v", resource, name, have, uids)
	}
}

// deleteEveryWay has users delete owners with every policy, and a ring in the foreground.
func (w *world) deleteEveryWay() {
	w.t.Helper()
	for _, owner := range []string{"front", "freeing", "other"} {
		w.create("configmaps", owner)
	}
	w.create("secrets", "middle", cm("front", 1, true))
	w.create("pods", "leaf", metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "middle", UID: "middle-1", BlockOwnerDeletion: cm("", 0, true).BlockOwnerDeletion})
	w.create("pods", "shared", cm("front", 1, true), cm("other", 1, true))
	for i := range 2 {
		w.create("secrets", fmt.Sprintf("freed-%d", i), cm("freeing", 1, false))
	}
	// The ring is closed by its last reference: an object whose owner does not exist yet is collected.
	w.create("configmaps", "ring-b")
	w.create("configmaps", "ring-a", cm("ring-b", 1, true))
	w.must(w.Update("configmaps", "ns", "ring-b", func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{cm("ring-a", 1, true)} }))
	w.delete("doomed", metav1.DeletePropagationBackground)
	w.delete("front", metav1.DeletePropagationForeground)
	w.delete("freeing", metav1.DeletePropagationOrphan)
	w.delete("ring-a", metav1.DeletePropagationForeground)
	w.delete("ring-b", metav1.DeletePropagationForeground)
}

// wantEveryWay fails unless all those deletions have ended as requested.
func (w *world) wantEveryWay() {
	w.t.Helper()
	w.wantEnd()
	for _, gone := range []string{"configmaps/front", "secrets/middle", "pods/leaf", "configmaps/freeing", "configmaps/ring-a", "configmaps/ring-b"} {
		resource, name, _ := strings.Cut(gone, "/")
		if _, there := w.object(resource, name); there {
			w.t.Errorf("%s is left", gone)
		}
	}
	w.wantOwners("secrets", "freed-0")
	w.wantOwners("secrets", "freed-1")
	w.wantOwners("pods", "shared", "other-1")
}

// The process dies after its n-th write, for every n, before or after it receives the answer. The next process finishes
// everything.
func TestNextProcessFinishesAfterACrashAtAnyWrite(t *testing.T) {
	for _, answered := range []bool{true, false} {
		crashed := true
		for n := int32(1); crashed; n++ {
			inBubble(t, func(t *testing.T, w *world) {
				w.deleteEveryWay()
				crashed = w.crashAfter(n, answered)
				w.Start(nil)
				w.wantEveryWay()
			})
			if t.Failed() {
				t.Fatalf("after write %d, answered: %v", n, answered)
			}
			if !crashed && n < 15 {
				t.Errorf("all was done in %d writes", n-1)
			}
		}
	}
}

// crashAfter runs a collector that dies after its n-th write. It returns false if the collector had nothing left to do
// before.
func (w *world) crashAfter(n int32, answered bool) bool {
	w.t.Helper()
	var writes atomic.Int32
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if !single(c, "delete") && !single(c, "patch") {
			return nil
		}
		switch i := writes.Add(1); {
		case i == n && !answered:
			w.Cut() // it still takes effect
		case i == n+1:
			w.Cut()
			fallthrough
		case i > n:
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}
		return nil
	})
	w.Start(nil)
	crashed := func() bool { return writes.Load() > n || writes.Load() == n && !answered }
	w.Until("a crash, or rest", func() bool { return crashed() || w.Resting() })
	w.Crash()
	w.SetFault(nil)
	return crashed()
}

// The new process sees an old state: an owner that is gone by now, dependents that by now have another owner or were
// created again, and an object that no longer dangles.
func TestStaleViewAfterARestartDeletesNothingWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.create("configmaps", "keeper")
		w.create("configmaps", "replaced")
		w.create("secrets", "adopted", cm("replaced", 1, true))
		w.create("secrets", "again", cm("replaced", 1, true))
		w.create("secrets", "behind", cm("replaced", 1, true))
		w.create("configmaps", "waits")
		w.create("secrets", "rescued", cm("waits", 1, true))
		w.Start(nil)
		w.Rest()
		// No collector runs meanwhile.
		w.Stop()
		w.create("pods", "dangled", cm("never", 1, false))
		w.delete("waits", metav1.DeletePropagationForeground)
		long := w.Revision()
		w.must(w.Update("pods", "ns", "dangled", func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{cm("keeper", 1, false)} }))
		w.must(w.Update("secrets", "ns", "rescued", func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{cm("keeper", 1, false)} }))
		w.delete("replaced", metav1.DeletePropagationBackground)
		w.create("configmaps", "replaced")
		w.must(w.Update("secrets", "ns", "adopted", func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{cm("replaced", 2, true)} }))
		w.must(w.Delete("secrets", "ns", "again", metav1.DeleteOptions{}))
		w.create("secrets", "again", cm("replaced", 2, true))
		w.delete("doomed", metav1.DeletePropagationBackground)

		w.SetStale(long)
		calls := len(w.Calls(0))
		w.Start(nil)
		// It acts on that view, and its writes conflict with the current state.
		w.UntilCalls(calls, "delete pods ns/dangled", 1)
		w.UntilCalls(calls, "delete secrets ns/rescued", 1)
		kept := func() {
			t.Helper()
			w.wantOwners("pods", "dangled", "keeper-1")
			w.wantOwners("secrets", "rescued", "keeper-1")
			w.wantOwners("secrets", "adopted", "replaced-2")
			w.wantOwners("secrets", "again", "replaced-2")
			w.wantWhole("living")
		}
		kept()
		w.SetStale(0)
		w.wantEnd()
		kept()
		if _, there := w.object("secrets", "behind"); there || w.has("waits") {
			t.Error("what nobody owns any more is left, or a deletion in the foreground has not ended")
		}
	})
}

// During a gap of the watch, new objects, related and unrelated, take the names of owners and dependents. None of these
// events is observed.
func TestNamesReusedDuringAGapAreOtherObjects(t *testing.T) {
	for name, compact := range map[string]bool{"dropped": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.create("configmaps", "again")
				w.create("secrets", "old", cm("again", 1, true))
				w.create("secrets", "moved", cm("again", 1, true))
				w.create("secrets", "same", cm("again", 1, true))
				w.create("pods", "freed", cm("let-go", 1, false))
				w.create("configmaps", "let-go")
				w.create("configmaps", "twice")
				w.Start(nil)
				w.Rest()
				w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
					if c.Verb == "watch" || c.Verb == "list" {
						return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
					}
					return nil
				})
				w.DropWatches("")
				w.delete("again", metav1.DeletePropagationBackground)
				w.create("configmaps", "again")
				w.must(w.Update("secrets", "ns", "moved", func(m *metav1.ObjectMeta) { m.OwnerReferences[0].UID = "again-2" }))
				w.must(w.Delete("secrets", "ns", "same", metav1.DeleteOptions{}))
				w.create("secrets", "same", cm("again", 2, true))
				w.create("secrets", "late", cm("again", 1, true)) // names the one that is already gone
				// Another kind of object takes the name, then the first kind again.
				w.must(w.Delete("configmaps", "ns", "twice", metav1.DeleteOptions{}))
				w.create("configmaps", "twice")
				w.must(w.Delete("configmaps", "ns", "twice", metav1.DeleteOptions{}))
				w.create("pods", "of-the-second", cm("twice", 2, false))
				w.create("configmaps", "twice")
				w.create("pods", "of-the-third", cm("twice", 3, false))
				w.delete("let-go", metav1.DeletePropagationOrphan)
				w.delete("doomed", metav1.DeletePropagationBackground)
				if compact {
					w.Compact()
				}
				w.wantEnd()
				for _, gone := range []string{"old", "late"} {
					if _, there := w.object("secrets", gone); there {
						t.Errorf("%s is left", gone)
					}
				}
				if _, there := w.object("pods", "of-the-second"); there {
					t.Error("a dependent of one that is gone is left")
				}
				w.wantOwners("secrets", "moved", "again-2")
				w.wantOwners("secrets", "same", "again-2")
				w.wantOwners("pods", "of-the-third", "twice-3")
				w.wantOwners("pods", "freed")
			})
		})
	}
}
