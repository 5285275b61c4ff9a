package gc

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/bubble"
)

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

func TestNothingIsWrittenBeforeThePauseIsKnown(t *testing.T) {
	g := newGate(time.Now, quiet())
	if err := g.allow(); !errors.Is(err, act.ErrPaused) {
		t.Errorf("a call before the pause is known: %v, want it refused", err)
	}
	g.failed(errors.New("no"))
	if err := g.allow(); !errors.Is(err, act.ErrPaused) {
		t.Errorf("it cannot be read: %v", err)
	}
	g.set(pause.State{})
	if err := g.allow(); err != nil {
		t.Error(err)
	}
	g.failed(errors.New("no"))
	if err := g.allow(); err != nil {
		t.Errorf("it was not paused when last read: %v", err)
	}
}

// TestNothingIsWrittenBeforeTheStoreIsVerified: also if the pause could be read, and the time counts as a pause.
func TestNothingIsWrittenBeforeTheStoreIsVerified(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(time.Now, quiet())
		verified := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.follow(ctx, fake.NewClientset().CoreV1(), verified)
		}()
		began := time.Now()
		time.Sleep(time.Hour)
		if err := g.allow(); !errors.Is(err, act.ErrPaused) {
			t.Errorf("a call before the store is verified: %v, want it refused", err)
		}
		close(verified)
		if !g.wait(t.Context()) || g.allow() != nil {
			t.Error("the gate stays shut after the store has been verified")
		}
		if took := g.pauses().Within(began, time.Now()); took < time.Hour {
			t.Errorf("%s of an hour count as paused", took)
		}
		cancel()
		<-done
	})
}

func TestWritesAreRefusedInAPause(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	c.gate.set(pause.State{Paused: true})
	if err := attemptOnce(t, c, k); !errors.Is(err, act.ErrPaused) {
		t.Fatalf("the attempt ended with %v", err)
	}
	s.wantCalls()
	c.gate.set(pause.State{})
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child")
}

// A worker that holds an object when a pause begins keeps it until the pause ends,
// and then makes one attempt.
func TestWorkersRestInAPause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		g := p.gate
		g.set(pause.State{Paused: true, Since: time.Now()})
		attempts := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		p.attempt = func(context.Context, graph.Key) (time.Time, error) {
			attempts++
			if attempts == 1 {
				g.set(pause.State{Paused: true}) // in the middle of it
				return time.Time{}, act.ErrPaused
			}
			return time.Time{}, nil
		}
		go func() {
			defer close(done)
			p.work(ctx, ctx)
		}()
		p.queue.Add(key("k"))
		rest := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		rest(time.Hour)
		if attempts != 0 {
			t.Errorf("%d attempts in a pause", attempts)
		}
		g.set(pause.State{})
		rest(time.Hour)
		if attempts != 1 {
			t.Errorf("%d attempts before the second pause", attempts)
		}
		g.set(pause.State{})
		rest(time.Second) // no backoff: it had not failed
		if attempts != 2 {
			t.Errorf("%d attempts in all", attempts)
		}
		g.set(pause.State{Paused: true})
		p.queue.Add(key("k"))
		cancel() // also ends a worker that waits for the end of a pause
		p.queue.ShutDown()
		<-done
	})
}

func TestPausedTimeCountsTowardsNoDeadline(t *testing.T) {
	p := newPatience(t, tenMinutes)
	p.gate.set(pause.State{})
	k := p.owner("o", 0)
	p.dependent("d", "o")
	p.look(t, k)
	p.clock = p.clock.Add(4 * time.Minute)
	p.gate.set(pause.State{Paused: true})
	p.clock = p.clock.Add(time.Hour)
	p.gate.set(pause.State{})
	if in, gone := p.look(t, k); in != 6*time.Minute || gone {
		t.Fatalf("after a pause: again in %v, gone %v", in, gone)
	}
	p.clock = p.clock.Add(6*time.Minute + time.Second) // and a second for the dependent
	if _, gone := p.look(t, k); !gone {
		t.Error("it waits beyond its deadline")
	}
}

// The ConfigMap remembers the pauses that the process did not see.
func TestPausesBeforeTheStartCountTowardsNoDeadline(t *testing.T) {
	for name, s := range map[string]pause.State{
		"two that have ended": {Past: []pause.Interval{
			{From: at(-50), To: at(-40)}, // before it was deleted
			{From: at(-33), To: at(-20)}, // it was deleted three minutes into this one
			{From: at(-16), To: at(-1)},
		}},
		"one under way": {Paused: true, Since: at(-25)},
	} {
		p := newPatience(t, tenMinutes)
		p.gate = newGate(p.now, quiet())
		p.gate.set(s)
		k := p.owner("o", 30*time.Minute)
		p.dependent("d", "o")
		p.gate.set(pause.State{})
		if in, gone := p.look(t, k); in != 5*time.Minute || gone {
			t.Errorf("%s: again in %v, gone %v", name, in, gone)
		}
	}
}

// at is the time so many minutes after the start of a patience's clock.
func at(minutes int) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(minutes) * time.Minute)
}
