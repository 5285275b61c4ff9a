package fault

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// widget returns a blocking reference to a widget.
func widget(name string, nth string) metav1.OwnerReference {
	r := cm(name, 1, true)
	r.APIVersion, r.Kind, r.UID = "example.com/v1", "Widget", types.UID(name+"-"+nth)
	return r
}

// mixed creates trees in which widgets are owners and dependents. deleteMixed has users delete them with every policy.
//
//	top (ConfigMap, foreground) - between (Widget) - below (Pod)
//	front (Widget, foreground)  - under (Secret) - deep (Widget)
//	back (Widget, background)   - behind (Pod)
//	free (ConfigMap, orphan)    - freed (Widget) - held (Pod)
//	stays (ConfigMap)           - staying (Widget)
func (w *world) mixed() {
	w.t.Helper()
	secret := cm("under", 1, true)
	secret.Kind = "Secret"
	for _, name := range []string{"top", "free", "stays"} {
		w.create("configmaps", name)
	}
	w.create("widgets", "between", cm("top", 1, true))
	w.create("pods", "below", widget("between", "1"))
	w.create("widgets", "front")
	w.create("secrets", "under", widget("front", "1"))
	w.create("widgets", "deep", secret)
	w.create("widgets", "back")
	w.create("pods", "behind", widget("back", "1"))
	w.create("widgets", "freed", cm("free", 1, true))
	w.create("pods", "held", widget("freed", "1"))
	w.create("widgets", "staying", cm("stays", 1, true))
}

func (w *world) deleteMixed() {
	w.t.Helper()
	w.delete("top", metav1.DeletePropagationForeground)
	w.delete("free", metav1.DeletePropagationOrphan)
	foreground, background := metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	w.must(w.Delete("widgets", "ns", "front", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	w.must(w.Delete("widgets", "ns", "back", metav1.DeleteOptions{PropagationPolicy: &background}))
}

// wantGone fails if one of these objects is left.
func (w *world) wantGone(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if w.there(name) {
			w.t.Errorf("%s is left", name)
		}
	}
}

// there reports whether any object has the name.
func (w *world) there(name string) bool {
	return slices.ContainsFunc(w.Objects(), func(o fakeapi.Object) bool { return o.Name == name })
}

// writing returns a fault that calls do before the collector's n-th write to a single object, counted from 1, and lets the write
// proceed.
func writing(do func(n int32)) fakeapi.Fault {
	var writes atomic.Int32
	return func(c fakeapi.Call) http.HandlerFunc {
		if single(c, "delete") || single(c, "patch") {
			do(writes.Add(1))
		}
		return nil
	}
}

// While cascades run, a CRD whose objects are owners and dependents in them is deleted before the first write, then in another run
// before the second, and so on. No object with a living owner goes, and every deletion ends. If the CRD is created again at once,
// new objects of the same names stay.
func TestCRDDeletedDuringCascades(t *testing.T) {
	for name, again := range map[string]bool{"for good": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			came := true // the write before which the CRD is deleted was made
			for n := int32(1); came; n++ {
				inBubble(t, func(t *testing.T, w *world) {
					w.Define(widgets)
					w.mixed()
					// The collector sees the owners' deletions: once their kind is not served, nothing else would prove them.
					w.Start(nil)
					w.Rest()
					var deleted atomic.Bool
					requested := make(chan struct{}) // closed when the users have made all their deletions
					w.SetFault(writing(func(i int32) {
						<-requested
						if i != n {
							return
						}
						deleted.Store(true)
						if err := w.Delete("customresourcedefinitions", "", "widgets.example.com", metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
						if again {
							w.Define(widgets)
							if err := w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: "front"}); err != nil {
								t.Error(err)
							}
							if err := w.Create("pods", metav1.ObjectMeta{Namespace: "ns", Name: "of-the-new", OwnerReferences: []metav1.OwnerReference{widget("front", "2")}}); err != nil {
								t.Error(err)
							}
						}
					}))
					w.deleteMixed()
					w.delete("doomed", metav1.DeletePropagationBackground)
					close(requested)
					w.Until("the CRD's end, or rest", func() bool { return deleted.Load() || w.Resting() })
					came = deleted.Load()
					w.wantEnd()
					w.wantGone("top", "between", "below", "under", "deep", "back", "behind", "free")
					if !w.has("stays") {
						t.Error("an owner that nobody has deleted is gone")
					}
					switch {
					case came && again:
						w.wantOwners("widgets", "front")
						w.wantOwners("pods", "of-the-new", "front-2")
					default:
						w.wantGone("front")
					}
					if came {
						// The CRD took its objects along, and their dependents go with them.
						w.wantGone("freed", "staying", "held")
					} else {
						w.wantOwners("widgets", "freed")
						w.wantOwners("pods", "held", "freed-1")
						w.wantOwners("widgets", "staying", "stays-1")
					}
				})
				if t.Failed() {
					t.Fatalf("the CRD was deleted before write %d: %v", n, came)
				}
				if !came && n < 15 {
					t.Errorf("all was done in %d writes", n-1)
				}
			}
		})
	}
}

// Discovery changes before every write of running cascades. Another CRD and another APIService come and go, the CRD whose objects
// are in the cascades is served and not, and discovery fails now and then. Once that ends, everything ends as requested.
func TestDeletionsEndThoughDiscoveryFlaps(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Define(widgets)
		w.mixed()
		w.Start(nil)
		w.Rest()
		gadgets := fakeapi.Resource{Group: "other.example.com", Name: "gadgets", Kind: "Gadget", Versions: []string{"v1"}, Namespaced: true}
		gauges := fakeapi.Resource{Group: "aggregated.example.com", Name: "gauges", Kind: "Gauge", Versions: []string{"v1"}, Namespaced: true, Aggregated: true}
		w.Define(gauges)
		w.Undiscoverable(true)
		var changes atomic.Int32
		change := writing(func(n int32) {
			changes.Add(1)
			w.SetServed("widgets", n%3 != 0)
			if n%2 == 1 {
				w.Define(gadgets)
				w.Define(gauges)
				return
			}
			// Several writes are under way at once, so these may be gone already.
			_ = w.Delete("customresourcedefinitions", "", "gadgets.other.example.com", metav1.DeleteOptions{})
			_ = w.Delete("apiservices", "", "v1.aggregated.example.com", metav1.DeleteOptions{})
		})
		var discoveries atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Verb == "discover" && discoveries.Add(1)%5 == 0 {
				return fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			}
			return change(c)
		})
		w.deleteEveryWay()
		w.deleteMixed()
		w.Until("the end of what does not depend on what flaps", func() bool {
			return w.count("doomed") == 0 && w.count("ghost") == 0 && !w.has("ring-a") && !w.has("ring-b")
		})
		w.wantWhole("living")
		w.Until("changes", func() bool { return changes.Load() >= 15 })
		w.SetFault(nil)
		w.Undiscoverable(false)
		w.SetServed("widgets", true)
		w.Define(gadgets)
		w.Define(gauges)
		w.wantEveryWay()
		w.wantGone("top", "between", "below", "front", "under", "deep", "back", "behind", "free")
		w.wantOwners("widgets", "freed")
		w.wantOwners("pods", "held", "freed-1")
		w.wantOwners("widgets", "staying", "stays-1")
	})
}

// Finalizers that nobody removes hold their objects, and everything that waits for those, for ever. Nothing else waits, and the
// collector does not retry in vain: for an hour it makes no call about any object.
func TestStuckFinalizersHoldOnlyWhatWaitsForThem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const never = "example.com/never"
		held := func(resource, name string, owners ...metav1.OwnerReference) {
			t.Helper()
			w.must(w.Create(resource, metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: owners, Finalizers: []string{never}}))
		}
		w.deleteEveryWay()
		for _, owner := range []string{"waits", "goes", "lets-go"} {
			w.create("configmaps", owner)
		}
		held("pods", "held-front", cm("waits", 1, true))
		w.create("pods", "beside", cm("waits", 1, true))
		held("pods", "held-back", cm("goes", 1, true))
		held("pods", "held-free", cm("lets-go", 1, true))
		held("configmaps", "held-ring-a", cm("held-ring-b", 1, true))
		held("configmaps", "held-ring-b", cm("held-ring-a", 1, true))
		w.Start(nil)
		w.delete("waits", metav1.DeletePropagationForeground)
		w.delete("goes", metav1.DeletePropagationBackground)
		w.delete("lets-go", metav1.DeletePropagationOrphan)
		w.delete("held-ring-a", metav1.DeletePropagationForeground)
		w.delete("held-ring-b", metav1.DeletePropagationForeground)
		w.wantEveryWay()
		w.wantGone("goes", "lets-go", "beside")
		w.wantOwners("pods", "held-free")
		for _, name := range []string{"waits", "held-front", "held-back", "held-ring-a", "held-ring-b"} {
			if !w.there(name) {
				t.Errorf("%s is gone though a finalizer holds it", name)
			}
		}
		calls := len(w.Calls(0))
		time.Sleep(time.Hour)
		for _, c := range w.Calls(calls) {
			if !c.ByMonitor() {
				t.Errorf("an hour later: %s", c)
			}
		}
		for _, name := range []string{"pods/held-front", "pods/held-back", "configmaps/held-ring-a", "configmaps/held-ring-b"} {
			resource, name, _ := strings.Cut(name, "/")
			w.must(w.Update(resource, "ns", name, func(m *metav1.ObjectMeta) { m.Finalizers = nil }))
		}
		w.wantEnd()
		w.wantGone("waits", "held-front", "held-back", "held-ring-a", "held-ring-b")
	})
}

// A quota refuses every creation, and so every event that the collector writes. Deletions with every policy still end.
func TestDeletionsEndThoughEventsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var refused atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if c.Verb == "create" && c.Resource == "events" {
				refused.Add(1)
				return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
			}
			return nil
		})
		w.Start(func(o *gc.Options) { o.OrphanTimeout = time.Minute })
		w.deleteEveryWay()
		w.Until("an event that is refused", func() bool { return refused.Load() > 0 }) // of the ring
		w.wantEveryWay()
	})
}
