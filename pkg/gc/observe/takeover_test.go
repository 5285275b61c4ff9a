package observe

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// restartPods has another monitor of pods take over and waits until it has listed them.
func (w *world) restartPods() {
	w.t.Helper()
	w.Observer.mu.Lock()
	old := w.monitors[pods]
	w.restart(w.ctx, pods)
	w.Observer.mu.Unlock()
	w.until("another monitor of pods", func() bool {
		w.Observer.mu.Lock()
		defer w.Observer.mu.Unlock()
		return w.monitors[pods] != old
	})
	w.until("its first list", func() bool { return w.state(pods) == Synced })
}

// doubted returns the objects that were queued while no monitor showed them.
func (w *world) doubted() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsure
}

// Objects are created all the time while one monitor after the other takes over. No
// object is ever taken for vanished or forgotten.
func TestTakeOverUnderSteadyCreation(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		w.must(w.Create("pods", dangling(fmt.Sprint("pod-", i))))
	}
	w.run()
	w.untilSynced()
	made, enough := 1000, make(chan struct{})
	var making sync.WaitGroup
	making.Go(func() {
		for {
			select {
			case <-enough:
				return
			default:
			}
			if made-w.graph.Count(pods) > 20 {
				runtime.Gosched() // no faster than the graph receives them
				continue
			}
			m := dangling(fmt.Sprint("pod-", made))
			if made%2 == 0 {
				m.OwnerReferences = nil // if it were taken for vanished, it would be forgotten at once
			}
			if err := w.Create("pods", m); err != nil {
				t.Error(err)
				return
			}
			made++
		}
	})
	for range 20 {
		w.restartPods()
	}
	close(enough)
	making.Wait()
	w.until("all objects", func() bool { return w.graph.Count(pods) == made })
	if n := len(w.doubted()); n > 0 {
		t.Errorf("%d objects that exist were taken for vanished", n)
	}
	w.must(w.graph.Check())
}

// A monitor of another version takes over while the server's cache lags. A list of any
// age would lack objects that the previous monitor has shown.
func TestTakeOverAsksForNoOldList(t *testing.T) {
	w := newWorld(t)
	widgets := fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true}
	w.Define(widgets)
	w.must(w.Create("widgets", dangling("child")))
	w.must(w.Create("widgets", metav1.ObjectMeta{Namespace: "ns", Name: "alone"}))
	w.run()
	w.untilSynced()
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" && c.Resource == "widgets" && c.Query.Get("resourceVersion") == "0" {
			return w.EmptyList
		}
		return nil
	})
	widgets.Versions = []string{"v2", "v1"}
	w.Define(widgets)
	w.until("the monitor of the new version", func() bool {
		return slices.ContainsFunc(w.States(), func(m MonitorState) bool {
			return m.Resource.GroupResource() == widgets.GroupResource() && m.Resource.Version == "v2" && m.State == Synced
		})
	})
	if n, doubted := w.graph.Count(widgets.GroupResource()), w.doubted(); n != 2 || len(doubted) > 0 {
		t.Errorf("%d of 2 objects are known, and %v are doubted", n, doubted)
	}
}

// An object whose deletion went unseen is missing from the first list of the monitor
// that takes over, and so it is read.
func TestTakeOverNoticesWhatHasGone(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"there", "lost"} {
		w.must(w.Create("pods", dangling(name)))
	}
	w.run()
	w.untilSynced()
	w.LoseEvents(func(*fakeapi.Resource, *metav1.ObjectMeta) bool { return true })
	w.must(w.Delete("pods", "ns", "lost", metav1.DeleteOptions{}))
	w.LoseEvents(nil)
	w.restartPods()
	for name, want := range map[types.UID]bool{"there-1": false, "lost-1": true} {
		if v, ok := w.graph.View(graph.Key{Resource: pods, UID: name}); !ok || v.Missing != want {
			t.Errorf("%s is known: %v, doubted: %v", name, ok, v.Missing)
		}
	}
	if got := w.doubted(); len(got) != 1 || got[0] != "lost-1" {
		t.Errorf("%v were queued to be read", got)
	}
}
