package observe

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// A list of pods that never completes holds foreground deletions for two minutes and
// no longer, however each attempt ends.
func TestResourceThatNeverListsFails(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"expired": func(fakeapi.Call) http.HandlerFunc {
			return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
		},
		"cut off": func(fakeapi.Call) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
		"a break between pages": func(c fakeapi.Call) http.HandlerFunc {
			if c.Query.Get("continue") == "" && c.Query.Get("limit") != "" {
				return nil
			}
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
		"no answer": func(fakeapi.Call) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.SetPageSize(2)
			for i := range 5 {
				w.must(w.Create("pods", dangling(fmt.Sprint("pod-", i))))
			}
			var lists atomic.Int32
			w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
				if c.Resource != "pods" || c.Verb != "list" {
					return nil
				}
				lists.Add(1)
				return fault(c)
			})
			w.run()
			w.until("the other resources", func() bool { return w.Monitors().Syncing == 1 })
			tries := int32(4)
			if name == "no answer" {
				tries = 1
			}
			w.until("some tries", func() bool { return lists.Load() >= tries })
			w.pass(stallAfter - time.Minute)
			if _, synced := w.graph.Synced(); synced || w.state(pods) != Syncing {
				t.Errorf("after a minute pods are %s (all: %v)", w.state(pods), synced)
			}
			w.pass(time.Minute)
			if _, synced := w.graph.Synced(); !synced || w.state(pods) != Failing {
				t.Errorf("after two minutes pods are %s (all: %v)", w.state(pods), synced)
			}
			w.SetFault(nil)
			if name == "no answer" {
				return // the call hangs until the end of the test
			}
			w.until("the list", func() bool { return w.state(pods) == Synced && w.graph.Count(pods) == 5 })
			w.untilSynced()
		})
	}
}

// A slow list is read for as long as pages come.
func TestSlowListIsNotFailing(t *testing.T) {
	w := newWorld(t)
	w.SetPageSize(1)
	const pages = 5
	for i := range pages {
		w.must(w.Create("pods", dangling(fmt.Sprint("pod-", i))))
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "pods" && c.Verb == "list" {
			asked <- struct{}{}
			<-answer
		}
		return nil
	})
	w.run()
	for range pages {
		<-asked
		w.pass(stallAfter - time.Minute)
		if got := w.state(pods); got != Syncing {
			t.Errorf("a list that goes on is %s", got)
		}
		answer <- struct{}{}
	}
	w.untilSynced()
	if got := w.state(pods); got != Synced {
		t.Errorf("the resource is %s", got)
	}
}

// untilWatched waits until a resource is watched; its list is in the graph a moment
// earlier.
func (w *world) untilWatched(gr schema.GroupResource) {
	w.t.Helper()
	w.until("a watch", func() bool {
		w.Observer.mu.Lock()
		defer w.Observer.mu.Unlock()
		h := w.monitors[gr].health
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.waiting.IsZero()
	})
}

// A monitor that has watched and then cannot list again is noticed in the same way.
func TestMonitorThatCannotListAgainFails(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.untilSynced()
	w.untilWatched(pods)
	w.pass(time.Hour)
	if got := w.state(pods); got != Synced {
		t.Errorf("a watch that is quiet is %s", got)
	}
	var lists atomic.Int32
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource != "pods" {
			return nil
		}
		if c.Verb == "list" {
			lists.Add(1)
		}
		return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
	})
	w.DropWatches("pods")
	w.until("tries", func() bool { return lists.Load() >= 2 })
	w.pass(stallAfter - time.Minute)
	if got := w.state(pods); got != Synced {
		t.Errorf("after a minute pods are %s", got)
	}
	w.pass(time.Minute)
	if got := w.state(pods); got != Failing {
		t.Errorf("after two minutes pods are %s", got)
	}
	w.SetFault(nil)
	w.until("the end of the failure", func() bool { return w.state(pods) == Synced })
}

func TestPagesThatWereReadBeforeAreNoProgress(t *testing.T) {
	var p paging
	for i, step := range []struct{ first, last, progress bool }{
		{true, false, true}, {false, false, true}, // breaks off
		{true, false, false}, {false, false, false}, {false, false, true}, // breaks off
		{true, false, false},
		{true, true, true}, // the whole list at once
		{true, false, true}, {false, true, true},
	} {
		if got := p.page(step.first, step.last); got != step.progress {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
