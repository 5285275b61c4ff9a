package gc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/bubble"
)

// working runs a worker that makes the test's attempts, within a synctest bubble, until the test
// calls end.
func working(t *testing.T, p *pool, attempt func() (again time.Time, err error)) (end func()) {
	t.Helper()
	p.attempt = func(context.Context, graph.Key) (time.Time, error) { return attempt() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.work(ctx, ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		p.queue.ShutDown()
		<-done
	}
}

// A pause may begin while a worker waits for something to do.
func TestPauseThatBeginsWhileAWorkerIsIdle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		attempts := 0
		end := working(t, p, func() (time.Time, error) { attempts++; return time.Time{}, nil })
		defer end()
		p.gate.set(pause.State{Paused: true})
		p.queue.Add(key("k"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if attempts != 0 {
			t.Errorf("%d attempts in a pause", attempts)
		}
		p.gate.set(pause.State{})
		synctest.Wait()
		if attempts != 1 {
			t.Errorf("%d attempts after it", attempts)
		}
	})
}

func TestWorkerComesBackWhenItWasAskedTo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		began := time.Now()
		var at []time.Duration
		end := working(t, p, func() (time.Time, error) {
			at = append(at, time.Since(began))
			if len(at) == 1 {
				return time.Now().Add(time.Hour), nil
			}
			return time.Time{}, nil
		})
		defer end()
		p.queue.Add(key("k"))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if want := []time.Duration{0, time.Hour}; !slices.Equal(at, want) {
			t.Errorf("attempts after %v, want %v", at, want)
		}
	})
}

// The end of a turn is no failure, and a success ends a row of failures.
func TestOnlyFailuresInARowDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		began := time.Now()
		var at []time.Duration
		answers := []error{errors.New("no"), errors.New("no"), errTurnOver, nil}
		end := working(t, p, func() (time.Time, error) {
			at = append(at, time.Since(began))
			return time.Time{}, answers[(len(at)-1)%len(answers)]
		})
		defer end()
		for range 2 {
			p.queue.Add(key("k"))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		second := time.Minute
		want := []time.Duration{0, retryAtLeast, 3 * retryAtLeast, 3 * retryAtLeast, second, second + retryAtLeast, second + 3*retryAtLeast, second + 3*retryAtLeast}
		if !slices.Equal(at, want) {
			t.Errorf("attempts after %v, want %v", at, want)
		}
	})
}

func TestHeavyObjectIsPassedByWhatComesLater(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	heaviest := "a2" + strings.Repeat("+", 11)
	for _, uid := range []string{"a1", heaviest, "a3"} {
		q.Add(key(uid))
	}
	if got, want := take(t, q, 3), []string{"a1", "a3", heaviest}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAgeOfANamespaceIsThatOfItsOldestObject(t *testing.T) {
	clock := time.Unix(0, 0)
	q := queueBy(func() time.Time { return clock })
	defer q.ShutDown()
	q.Add(key("a1"))
	clock = clock.Add(time.Minute)
	q.Add(key("a2"))
	clock = clock.Add(time.Minute)
	if age := q.lanes.age(); age != 2*time.Minute {
		t.Errorf("the age is %v, want 2m", age)
	}
}

func TestGateIsClosedUntilThePauseIsKnown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(time.Now, quiet())
		passed := false
		go func() { passed = g.wait(t.Context()) }()
		synctest.Wait()
		if passed {
			t.Error("a worker went on before it was known whether the collector is paused")
		}
		g.set(pause.State{})
		synctest.Wait()
		if !passed {
			t.Error("it is known not to be paused")
		}
	})
}

// A clock that was wrong when the pause began must not extend deadlines by time that has not passed
// yet.
func TestPauseThatBeginsInTheFutureBeginsNow(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	g := newGate(func() time.Time { return now }, quiet())
	g.set(pause.State{Paused: true, Since: now.Add(time.Hour)})
	if p := g.pauses(); len(p) != 1 || !p[0].From.Equal(now) {
		t.Errorf("the pauses are %v, want one that begins now", p)
	}
}

// The search for rings waits until the pause has ended.
func TestRingsRestInAPause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := graph.New()
		b := &breaker{graph: g, gate: newGate(time.Now, quiet()), now: time.Now, log: quiet()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.run(ctx, ctx)
		}()
		g.SetCatalog(graph.NewCatalog(nil), time.Now())
		b.gate.set(pause.State{Paused: true})
		time.Sleep(time.Minute)
		if !g.TakeWaitingChanged() {
			t.Error("rings were looked for in a pause")
		}
		g.SetCatalog(graph.NewCatalog(nil), time.Now())
		b.gate.set(pause.State{})
		time.Sleep(2 * ringsEvery)
		if g.TakeWaitingChanged() {
			t.Error("rings were not looked for after the pause")
		}
		cancel()
		<-done
	})
}

// A small ring does not wait for a large one to be read.
func TestSmallRingsAreBrokenFirst(t *testing.T) {
	c, s := collector(t, false)
	for _, m := range []string{"ab", "bc", "ca"} {
		ringMember(c, s, m[:1], blocking(m[1:], key(m[1:]).UID))
	}
	ringMember(c, s, "z", blocking("z", "z"))
	c.breaker.breakAll(t.Context())
	if len(s.calls) == 0 || s.calls[0] != "GET z" {
		t.Errorf("calls were %v", s.calls)
	}
}

func TestRingThatGoesByItselfIsNotReported(t *testing.T) {
	c, s := collector(t, false)
	told := hear(c)
	ringMember(c, s, "x", blocking("x", "x"))
	s.before = func(call string) {
		if call == "PATCH x" {
			delete(s.objects, "x")
		}
	}
	c.breaker.breakAll(t.Context())
	s.wantCalls("GET x", "PATCH x")
	if n := len(told.AllEntries()); n != 0 {
		t.Errorf("users are told %d times of a ring that nobody has broken", n)
	}
}
