package fault

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// stopDuringADelete stops the collector while the delete of one object is unanswered. It returns a function that
// lets the delete be answered, and a channel that is closed when the collector has ended.
func stopDuringADelete(t *testing.T, w *world) (release func(), ended <-chan struct{}) {
	held, holding := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release) // before the server waits for its answers
	hold := sync.OnceFunc(func() { close(holding) })
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if single(c, "delete") && c.Name == "ghost-pods-0" {
			hold()
			<-held
		}
		return nil
	})
	w.Start(nil)
	<-holding
	collector := w.Collector()
	w.Until("all but one are collected", func() bool { return collector.Status().Collected == 2*children-1 })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.Stop()
		if n, want := collector.Status().Collected, int64(2*children-w.count("ghost")); n != want {
			t.Errorf("%d objects are counted of %d that were deleted", n, want)
		}
	}()
	return release, stopped
}

// A stopping collector waits for the answer to its running call.
func TestStopWaitsForTheRunningCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release, ended := stopDuringADelete(t, w)
		w.Until("the monitors end", func() bool { return w.Watching() == 0 })
		release()
		<-ended
		if n := w.count("ghost"); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// A server that does not answer delays the end only for a moment.
func TestStopAbandonsACallThatIsNotAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, ended := stopDuringADelete(t, w)
		select {
		case <-ended:
		case <-time.After(15 * time.Second): // half of a call's timeout
			t.Error("the collector waits for the answer")
			<-ended
		}
	})
}
