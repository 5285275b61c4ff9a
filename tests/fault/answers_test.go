package fault

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// Each call gets answers that prove nothing and have no effect. They cause no deletion,
// and all calls are retried. They come over a network: in a bubble they could not break off as HTTP does.
func TestAnswersThatProveNothingDeleteNothing(t *testing.T) {
	reads, writes := []string{"get"}, []string{"delete", "patch"}
	all := []string{"get", "delete", "patch"}
	for name, fault := range map[string]struct {
		answer http.HandlerFunc
		verbs  []string
	}{
		"generic 404":    {fakeapi.NotServed, all},
		"conflict":       {fakeapi.Fail(http.StatusConflict, metav1.StatusReasonConflict), all},
		"forbidden":      {fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden), all},
		"expired":        {fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired), all},
		"internal error": {fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError), all},
		"unavailable":    {fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), all},
		// A delete that is answered with 200 counts as done, whatever the body.
		"no json": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, reads},
		// client-go retries a read that is cut off: ten times, a second apart.
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, writes},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
				if c.Name != "" && slices.Contains(fault.verbs, c.Verb) {
					return fault.answer
				}
				return nil
			})
			w.Start(nil)
			calls := len(w.Calls(0))
			w.delete("doomed", metav1.DeletePropagationBackground)
			if slices.Contains(fault.verbs, "delete") {
				w.UntilCalls(calls, "delete pods ns/doomed-pods-0", 3)
				w.wantWhole("doomed")
			}
			if slices.Contains(fault.verbs, "get") {
				w.UntilCalls(0, "get configmaps ns/ghost", 3)
				w.wantWhole("ghost")
			}
			w.wantWhole("living")
			w.Check()
			w.wantEnd()
		})
	}
}

// The first deletes of every object get real conflicts, because the object is changed
// right before each.
func TestConflictStormDoesNotStopCollection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var storms atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if single(c, "delete") && storms.Add(1) <= 100 {
				err := w.Update(c.Resource, c.Namespace, c.Name, func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"again": "x"} })
				if err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("the storm's end", func() bool { return storms.Load() > 100 })
		w.wantEnd()
	})
}

// A webhook denies deletions with the code of a conflict. Each object is tried again ever more seldom, as after any denial,
// though the object has not changed and reading it again says so at once.
func TestDenialsWithTheCodeOfAConflictAreNoStorm(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var denied, reads atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			switch {
			case single(c, "delete") && c.Name == "doomed-pods-0":
				denied.Add(1)
				return fakeapi.Fail(http.StatusConflict, metav1.StatusReasonConflict)
			case single(c, "get") && c.Name == "doomed-pods-0":
				reads.Add(1)
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("three denials", func() bool { return denied.Load() >= 3 })
		before := denied.Load()
		time.Sleep(time.Minute) // the bubble's
		if n := denied.Load() - before; n < 1 || n > 20 {
			t.Errorf("%d deletions of one object are tried in a minute", n)
		}
		if n := reads.Load(); n > 0 {
			t.Errorf("the object is read %d times, and has not changed", n)
		}
		w.SetFault(nil)
		w.wantEnd()
	})
}

// The server answers with Retry-After, client-go waits, and no work is lost.
func TestRetryAfterIsObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var refused atomic.Int32
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if (single(c, "delete") || single(c, "get")) && refused.Add(1) <= 4 {
				return fakeapi.Later(1)
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("refusals", func() bool { return refused.Load() > 4 })
		w.wantEnd()
	})
}

// A write that is not answered holds up only its own object.
func TestSlowWriteHoldsUpNoOtherObject(t *testing.T) {
	slowCall(t, "delete", "doomed-pods-0", 1)
}

// If the read of an owner is not answered, only that owner's dependents wait.
func TestSlowReadOfAnOwnerHoldsUpOnlyItsDependents(t *testing.T) {
	slowCall(t, "get", "ghost", 0)
}

// slowCall blocks calls of one kind and waits until the deleted owner has no more
// children than left.
func slowCall(t *testing.T, verb, name string, left int) {
	inBubble(t, func(t *testing.T, w *world) {
		held := make(chan struct{})
		release := sync.OnceFunc(func() { close(held) })
		defer release()
		w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
			if single(c, verb) && c.Name == name {
				<-held
			}
			return nil
		})
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("all others are collected", func() bool { return w.count("doomed") == left })
		w.wantWhole("living")
		release()
		w.wantEnd()
	})
}
