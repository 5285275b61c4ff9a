package gc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/bubble"
)

// guarded returns a collector that has a guard, and the clock of both, which the test sets.
func guarded(t *testing.T, limit int) (c *Collector, s *store, now *time.Time) {
	t.Helper()
	c, s = collector(t, false)
	at := time.Now()
	c.now = func() time.Time { return at }
	c.guard.limit = limit
	return c, s, &at
}

// child shows an object whose owner nobody has seen.
func child(c *Collector, s *store, name string) graph.Key {
	return show(c, s.put(name, types.UID("uid-"+name), ref("owner-of-"+name, types.UID("owner-of-"+name))))
}

// mustDelete has the collector decide about an object, which must be deleted.
func mustDelete(t *testing.T, c *Collector, s *store, k graph.Key, name string) {
	t.Helper()
	if err := attemptOnce(t, c, k); err != nil || s.has(name) {
		t.Errorf("%s is there: %v, %v", name, s.has(name), err)
	}
}

// mustHold has the collector decide about an object, which must stay because the guard has paused the collector.
func mustHold(t *testing.T, c *Collector, s *store, k graph.Key, name string) {
	t.Helper()
	if err := attemptOnce(t, c, k); !errors.Is(err, act.ErrPaused) || !s.has(name) {
		t.Errorf("%s is there: %v, %v", name, s.has(name), err)
	}
	if p, _ := c.gate.paused(); !p.Paused || p.By != guardedBy || p.Reason == "" || c.gate.allow() == nil {
		t.Errorf("the guard did not pause the collector, or does not say why: %+v", p)
	}
}

func TestGuardPausesBeforeItsLimitIsExceeded(t *testing.T) {
	c, s, _ := guarded(t, 2)
	for _, name := range []string{"a", "b"} {
		mustDelete(t, c, s, child(c, s, name), name)
	}
	if r := c.Status().Guard; r == nil || r.Limit != 2 || r.Deleted.Count != 2 || r.Next != nil {
		t.Errorf("the status below the limit: %+v", r)
	}
	mustHold(t, c, s, child(c, s, "c"), "c")
	if r := c.Status(); r.Guard.Deleted.Count != 2 || r.Guard.Next == nil || r.Guard.Next.Name != "c" || r.Pause == nil {
		t.Errorf("the status at the limit: %+v", r)
	}
	// Deletions that rest on better evidence wait too: the collector is paused.
	k := show(c, s.put("seen", "s", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	mustHold(t, c, s, k, "seen")
	c.guard.resumed()
	c.gate.written(pause.State{})
	c.gate.set(pause.State{})
	mustDelete(t, c, s, k, "seen")
	mustDelete(t, c, s, graph.Key{Resource: configMaps, UID: "uid-c"}, "c")
}

func TestWithoutAGuardLookupsAreNotCounted(t *testing.T) {
	c, s, _ := guarded(t, 0)
	for i := range 20 {
		name := fmt.Sprint("x", i)
		mustDelete(t, c, s, child(c, s, name), name)
	}
	if r := c.Status().Guard; r != nil {
		t.Errorf("%+v", r)
	}
}

// TestGuardCountsOnlyDeletionsThatRestOnLookups: a deletion does not count if this process has seen the owner's deletion.
func TestGuardCountsOnlyDeletionsThatRestOnLookups(t *testing.T) {
	for name, tc := range map[string]struct {
		counts bool
		// make makes an object that is to be deleted; n is different in each call.
		make func(c *Collector, s *store, n int) graph.Key
	}{
		"the owner was seen to end": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			show(c, s.put(o, types.UID(o)))
			k := show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
			delete(s.objects, o)
			c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: o, UID: types.UID(o)}, c.now())
			return k
		}},
		"one of the owners was": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			k := show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref("nobody", "nobody"), ref(o, types.UID(o))))
			c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: o, UID: types.UID(o)}, c.now())
			return k
		}},
		"the owner waits": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			waiting(c, s, o, types.UID(o))
			return show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
		}},
		"the owner waits, and no monitor shows it": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			s.deleting(o, types.UID(o), metav1.FinalizerDeleteDependents)
			return show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
		}},
		"the owner waited, and its monitor has not shown its end yet": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			waiting(c, s, o, types.UID(o))
			delete(s.objects, o)
			return show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
		}},
		"the end was seen after it was read": {false, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			k := show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
			s.before = func(call string) {
				if call == "GET "+o { // the event arrives during the read
					c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: o, UID: types.UID(o)}, c.now())
				}
			}
			return k
		}},
		"nobody has seen any of the owners": {true, func(c *Collector, s *store, n int) graph.Key {
			return show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref("nobody", "nobody"), ref("nor-him", types.UID(fmt.Sprint("o", n)))))
		}},
		"a read alone has shown the end": {true, func(c *Collector, s *store, n int) graph.Key {
			o := fmt.Sprint("o", n)
			owner := show(c, s.put(o, types.UID(o)))
			k := show(c, s.put(fmt.Sprint("x", n), types.UID(fmt.Sprint("x", n)), ref(o, types.UID(o))))
			delete(s.objects, o)
			c.graph.Vanished(configMaps, owner.UID)
			if err := attemptOnce(t, c, owner); err != nil {
				t.Fatal(err)
			}
			return k
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s, _ := guarded(t, 1)
			mustDelete(t, c, s, tc.make(c, s, 1), "x1")
			if k := tc.make(c, s, 2); tc.counts {
				mustHold(t, c, s, k, "x2")
			} else {
				mustDelete(t, c, s, k, "x2")
			}
		})
	}
}

func TestGuardForgetsAfterTenMinutes(t *testing.T) {
	c, s, now := guarded(t, 2)
	mustDelete(t, c, s, child(c, s, "a"), "a")
	*now = now.Add(guardWindow / 2)
	mustDelete(t, c, s, child(c, s, "b"), "b")
	*now = now.Add(guardWindow / 2)
	mustDelete(t, c, s, child(c, s, "c"), "c")
	*now = now.Add(guardWindow/2 - 1)
	if n := c.Status().Guard.Deleted.Count; n != 2 {
		t.Errorf("%d deletions are counted, want 2", n)
	}
	mustHold(t, c, s, child(c, s, "d"), "d")
}

// TestGuardCountsWhatMayHaveBeenDeleted: refused deletions do not count; deletions with an unknown outcome do.
func TestGuardCountsWhatMayHaveBeenDeleted(t *testing.T) {
	c, s, _ := guarded(t, 1)
	k := child(c, s, "saved")
	s.before = func(call string) {
		if call == "DELETE saved" { // meanwhile it gets an owner
			s.put("owner", "o")
			s.put("saved", k.UID, ref("owner", "o"))
		}
	}
	if err := attemptOnce(t, c, k); err != nil || !s.has("saved") {
		t.Fatalf("the object that was refused is there: %v (%v)", s.has("saved"), err)
	}
	s.before = nil
	gone := child(c, s, "gone")
	s.answer = func(_ http.ResponseWriter, call string) bool {
		if call == "DELETE gone" {
			delete(s.objects, "gone")
		}
		return false
	}
	mustDelete(t, c, s, gone, "gone")
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call != "DELETE unclear" {
			return false
		}
		s.fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "unclear")
		return true
	}
	if err := attemptOnce(t, c, child(c, s, "unclear")); err == nil || errors.Is(err, act.ErrPaused) {
		t.Fatalf("the attempt ended with %v", err)
	}
	mustHold(t, c, s, child(c, s, "next"), "next")
}

func TestGuardHoldsManyWorkersToItsLimit(t *testing.T) {
	c, s, _ := guarded(t, 7)
	var keys []graph.Key
	for i := range 40 {
		keys = append(keys, child(c, s, fmt.Sprint("x", i)))
	}
	var workers sync.WaitGroup
	for _, k := range keys {
		workers.Go(func() {
			if _, err := c.attempts.run(context.Background(), k); err != nil && !errors.Is(err, act.ErrPaused) {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if n := len(s.objects); n != 33 || c.gate.allow() == nil {
		t.Errorf("%d of 40 objects are left; the pause: %v", n, c.gate.allow())
	}
}

// TestGuardWaitsForDeletionsUnderWay: before the guard reports one deletion too many, it waits for those under way, which may
// be refused.
func TestGuardWaitsForDeletionsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(time.Now, quiet())
		g.set(pause.State{})
		guard := newGuard(1, graph.New(), g, newTeller(quiet()), time.Now, quiet())
		view := func(name string) *graph.View {
			return &graph.View{Record: &graph.Record{Namespace: "ns", Name: name, UID: types.UID(name)}, Owners: []graph.OwnerView{{Fact: graph.Fact{State: graph.Absent}}}}
		}
		answer, deleted := make(chan error), 0
		go func() {
			_, _ = guard.delete(view("a"), func() (act.Outcome, error) { return act.Failed, <-answer })
		}()
		synctest.Wait()
		go func() {
			_, _ = guard.delete(view("b"), func() (act.Outcome, error) { deleted++; return act.Done, nil })
		}()
		synctest.Wait()
		if g.allow() != nil || deleted != 0 {
			t.Errorf("while the first is under way: %v, %d deleted", g.allow(), deleted)
		}
		answer <- fmt.Errorf("deleting: %w", act.ErrPaused)
		synctest.Wait()
		if g.allow() != nil || deleted != 1 {
			t.Errorf("after it was refused: %v, %d deleted", g.allow(), deleted)
		}
	})
}

// TestGuardWritesThePause: the write fails at first. The collector is held from the beginning. A state that was read
// earlier does not end the pause; reap resume does.
func TestGuardWritesThePause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(time.Now, quiet())
		g.set(pause.State{})
		guard := newGuard(1, graph.New(), g, newTeller(quiet()), time.Now, quiet())
		resumed := 0
		g.resumed = func() { resumed++; guard.resumed() }
		client := fake.NewClientset()
		failures := 3
		client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("the disk is full")
		})
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		go guard.run(ctx, client.CoreV1())

		v := &graph.View{Record: &graph.Record{Namespace: "ns", Name: "x", UID: "x"}, Owners: []graph.OwnerView{{Fact: graph.Fact{State: graph.Absent}}}}
		deleted := 0
		call := func() (act.Outcome, error) { deleted++; return act.Done, nil }
		for range 3 {
			_, _ = guard.delete(v, call)
		}
		synctest.Wait()
		if deleted != 1 || g.allow() == nil {
			t.Fatalf("%d deleted, allowed: %v", deleted, g.allow())
		}
		g.set(pause.State{}) // a state that was read before the pause
		if g.allow() == nil || resumed != 0 {
			t.Fatal("an old answer has ended the pause")
		}
		time.Sleep(10 * guardRetry) // of the bubble's clock
		s, changed, err := pause.Begin(ctx, client.CoreV1(), "somebody", "", time.Now())
		if err != nil || changed || s.By != guardedBy {
			t.Fatalf("the pause: %+v, %v, %v", s, changed, err)
		}
		if _, changed, err := pause.End(ctx, client.CoreV1(), time.Now()); err != nil || !changed {
			t.Fatal(changed, err)
		}
		g.set(pause.State{}) // no read has seen the pause in between
		if g.allow() != nil || resumed != 1 || guard.report(time.Now()).Deleted.Count != 0 {
			t.Errorf("after it was resumed: %v, %d, %+v", g.allow(), resumed, guard.report(time.Now()))
		}
		if len(g.pauses()) != 1 || g.pauses()[0].To.IsZero() {
			t.Errorf("the time of the pause: %+v", g.pauses())
		}
		_, _ = guard.delete(v, call)
		_, _ = guard.delete(v, call)
		g.set(pause.State{Paused: true, By: guardedBy})
		g.set(pause.State{})
		if deleted != 2 || g.allow() != nil || resumed != 2 {
			t.Errorf("once more: %d deleted, %v, %d", deleted, g.allow(), resumed)
		}
	})
}
