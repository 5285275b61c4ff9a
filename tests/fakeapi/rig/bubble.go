package rig

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// bubblePatience bounds every wait in a bubble, where time costs nothing. The collector's periodic work happens every half
// minute, and it retries failures within two minutes.
const bubblePatience = 20 * time.Minute

// InBubble runs a test in a synctest bubble, with a rig that has no network: time passes when every goroutine waits.
// The rig ends with the test.
func InBubble(t *testing.T, test func(t *testing.T, r *Rig)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		r := &Rig{Server: fakeapi.New(), t: t, blind: map[string]bool{}, bubble: true}
		defer r.endBubble()
		test(t, r)
	})
}

// Beside returns another rig on the same server, for a second collector.
func (r *Rig) Beside() *Rig {
	return &Rig{Server: r.Server, t: r.t, blind: map[string]bool{}, bubble: r.bubble, http: r.http}
}

func (r *Rig) endBubble() {
	r.SetFault(nil)
	r.Stop()
	// Goroutines of client-go's queues end a moment after they were shut down.
	time.Sleep(time.Minute)
}

// Crash ends the collector as if its process were killed: nothing that it sends reaches the server any more, and no
// answer reaches it.
func (r *Rig) Crash() {
	r.t.Helper()
	if r.collector != nil {
		r.Cut()
		r.Stop()
	}
}

// Cut disconnects the collector from the server for good. It works for a rig in a bubble only.
func (r *Rig) Cut() { r.wire.cut.Store(true) }

// Line returns what a collector that is to begin sends its requests through; Start uses it by itself.
func (r *Rig) Line() (host string, via http.RoundTripper) {
	if r.bubble {
		r.wire = &wire{handler: r.Server}
		return "http://fakeapi", r.wire
	}
	// One of its own, so that its goroutines can be told from others'.
	r.transport = &http.Transport{}
	return r.http.URL, r.transport
}

// untilInBubble is until for a bubble: it lets time pass.
func (r *Rig) untilInBubble(holds func() bool) bool {
	step := time.Millisecond
	for deadline := time.Now().Add(bubblePatience); time.Now().Before(deadline); time.Sleep(step) {
		synctest.Wait()
		if holds() {
			return true
		}
		step = min(2*step, time.Second)
	}
	return false
}
