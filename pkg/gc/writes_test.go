package gc

import (
	"context"
	"errors"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// busyWhen makes the store run then and answer one call with 429. client-go waits a
// second and sends the call again.
func (s *store) busyWhen(call string, then func()) {
	s.answer = func(w http.ResponseWriter, is string) bool {
		if is != call {
			return false
		}
		s.answer = nil
		then()
		w.Header().Set("Retry-After", "1")
		s.fail(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "")
		return true
	}
}

// client-go holds a write back because the server is busy. If a pause has begun
// meanwhile, the write is not sent.
func TestWriteThatWaitsInAClientIsNotSentInAPause(t *testing.T) {
	c, s := collector(t, false)
	child := show(c, s.put("child", "c", ref("owner", "o")))
	kept := s.put("kept", "k", ref("owner", "o"), ref("other", "x"))
	other := s.put("other", "x")
	show(c, other)
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	pauseBegins := func() { c.gate.set(pause.State{Paused: true}) }
	for call, k := range map[string]graph.Key{"DELETE child": child, "PATCH kept": show(c, kept)} {
		c.gate.set(pause.State{})
		s.busyWhen(call, pauseBegins)
		if err := attemptOnce(t, c, k); !errors.Is(err, act.ErrPaused) {
			t.Errorf("%s: the attempt ended with %v", call, err)
		}
		s.wantCalls(call)
	}
	if !s.has("child") || len(kept.OwnerReferences) != 2 {
		t.Error("something was written in a pause")
	}
	c.gate.set(pause.State{})
	if err := attemptOnce(t, c, child); err != nil {
		t.Error(err)
	}
	s.wantCalls("DELETE child")
}

// Reads continue during a pause, also those that client-go sends again.
func TestReadIsSentAgainInAPause(t *testing.T) {
	c, s := collector(t, false)
	s.put("owner", "o")
	c.gate.set(pause.State{Paused: true})
	s.busyWhen("GET owner", func() {})
	_, is, err := c.attempts.actor.Read(t.Context(), configMaps.WithVersion("v1"), "ns", "owner", "o")
	if is != act.Present || err != nil {
		t.Errorf("the read ended as %v, %v", is, err)
	}
	s.wantCalls("GET owner", "GET owner")
}

// An event reports what the collector does and does not change the object.
func TestEventsAreWrittenInAPause(t *testing.T) {
	c, s := collector(t, false)
	c.gate.set(pause.State{Paused: true})
	written := make(chan struct{})
	s.before = func(call string) {
		if call == "POST events" {
			close(written)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := act.NewEvents(ctx, c.config)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	rec := graph.RecordOf(s.put("owner", "o"))
	events.Warn(c.graph.Catalog().Resource(configMaps), rec, "Reason", "text")
	<-written
}
