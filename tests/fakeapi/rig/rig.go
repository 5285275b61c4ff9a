// Package rig runs the real collector against a fakeapi.Server, and says when it
// has come to rest.
package rig

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// Patience bounds every wait. It is no measure of speed: a test that reaches it
// has failed.
const Patience = 90 * time.Second

// Rig is a server, and the collector that runs against it, if any.
type Rig struct {
	*fakeapi.Server
	t    *testing.T
	http *httptest.Server

	collector *gc.Collector
	transport *http.Transport
	cancel    context.CancelFunc
	ended     chan error
	idle      float64 // of the queues' metrics before the collector began
	blind     map[string]bool
	undefined bool
	paused    bool
	keepRings bool // the collector does not look for them
	bubble    bool
	wire      *wire // in a bubble, of the collector that runs or ran last
}

// New returns a rig without a collector.
func New(t *testing.T) *Rig {
	t.Helper()
	s := fakeapi.New()
	r := &Rig{Server: s, t: t, http: httptest.NewServer(s), blind: map[string]bool{}}
	t.Cleanup(func() {
		r.SetFault(nil)
		r.Stop()
		r.http.Close()
	})
	return r
}

// Start runs a new collector and returns when its workers run.
func (r *Rig) Start(change func(*gc.Options)) {
	r.t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(r.t.Output())
		log.SetLevel(logrus.DebugLevel)
	}
	host, via := r.Line()
	o := gc.Options{
		Config:  &rest.Config{Host: host, Transport: via, QPS: -1},
		Workers: 4, Log: logrus.NewEntry(log),
	}
	if change != nil {
		change(&o)
	}
	r.idle, r.keepRings = unfinished(), o.NoCycleDetection
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.ended = cancel, make(chan error, 1)
	started := make(chan *gc.Collector, 1)
	go func() {
		r.ended <- gc.Run(ctx, o, func() {
			c, _ := gc.Running.Collector()
			select {
			case started <- c:
			default: // the store went back, and another collector runs
			}
		})
	}()
	select {
	case r.collector = <-started:
	case err := <-r.ended:
		r.t.Fatalf("the collector ended at once: %v", err)
	case <-time.After(r.patience()):
		r.t.Fatal("the collector does not start")
	}
}

// Stop ends the collector, if one runs, and fails the test if it leaves a
// goroutine behind.
func (r *Rig) Stop() {
	r.t.Helper()
	if r.collector == nil {
		return
	}
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("the collector ended: %v", err)
		}
	case <-time.After(r.patience()):
		r.t.Fatal("the collector does not end")
	}
	if c, _ := gc.Running.Collector(); c == r.collector {
		r.t.Error("a collector that has ended is said to run")
	}
	r.collector = nil
	if r.bubble {
		return // the bubble's end waits for every goroutine
	}
	r.transport.CloseIdleConnections()
	var left string
	if !r.until(func() bool { left = leftovers(); return left == "" }) {
		r.t.Errorf("goroutines outlive the collector:\n%s", left)
	}
}

// UntilStoreWentBack waits until the collector has ended because the store went back, and
// keeps another one from beginning in its place.
func (r *Rig) UntilStoreWentBack() {
	r.t.Helper()
	r.Until("the collector notices that the store went back", func() bool {
		c, absent := gc.Running.Collector()
		return c != r.collector && (c != nil || strings.Contains(absent.Reason, "went back"))
	})
	r.Stop()
}

// leftovers returns the stacks of goroutines that only a collector starts.
// client-go's queues end theirs up to half a second after they were shut down.
func leftovers() string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if strings.Contains(stack, "/reap/pkg/gc") || strings.Contains(stack, "k8s.io/client-go") || strings.Contains(stack, "pkg/watch.") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// Collector returns the collector that runs.
func (r *Rig) Collector() *gc.Collector { return r.collector }

// Pause pauses the collector, or lets it go on, and returns when one that runs knows.
func (r *Rig) Pause(paused bool) {
	r.t.Helper()
	r.paused = paused
	r.SetPaused(paused)
	if r.collector != nil {
		r.Until("the collector knows of a pause or its end", func() bool { return (r.collector.Status().Pause != nil) == paused })
	}
}

func (r *Rig) patience() time.Duration {
	if r.bubble {
		return bubblePatience
	}
	return Patience
}

// until waits for a condition: it is tried when the server has done something,
// and every few milliseconds, since the collector's own progress tells nobody.
func (r *Rig) until(holds func() bool) bool {
	if r.bubble {
		return r.untilInBubble(holds)
	}
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		changed := r.Changed()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
}

// Until waits for a condition and fails the test if it does not come true.
func (r *Rig) Until(what string, holds func() bool) {
	r.t.Helper()
	if !r.until(holds) {
		r.t.Fatalf("waited in vain: %s", what)
	}
}

// UntilCalls waits until so many calls of one form have been answered since the
// n-th call. The form may be a prefix: "list secrets".
func (r *Rig) UntilCalls(since int, form string, times int) {
	r.t.Helper()
	r.Until(form, func() bool {
		n := 0
		for _, c := range r.Calls(since) {
			if c.Code != 0 && strings.HasPrefix(c.String(), form) {
				n++
			}
		}
		return n >= times
	})
}
