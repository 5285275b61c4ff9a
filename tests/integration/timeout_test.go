package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	timedOut   = "SynchronousDeletionTimedOut"
	timeouts   = "reap_gc_synchronous_deletion_timeouts_total"
	ownTimeout = "gc.reap.dev/sync-timeout"
	// noTimeoutBefore is how long after its start a server lets nothing time out.
	noTimeoutBefore = 30 * time.Second
)

// hung is an object in foreground deletion that waits for others, which somebody else holds.
type hung struct {
	o    *unstructured.Unstructured
	held []*unstructured.Unstructured
}

// hang makes an object with n dependents that are held, and deletes it. timeout is its own; "" for the
// server's. It returns when all of them have been deleted: after that nothing moves any more.
func (s *server) hang(t *testing.T, ns, name, timeout string, n int) hung {
	t.Helper()
	h := hung{o: s.createTimed(t, ns, name, timeout)}
	for i := range n {
		h.held = append(h.held, s.createHeld(t, configMaps, ns, fmt.Sprintf("%s-held-%d", name, i), blocking(h.o)))
	}
	s.deleteAs(t, configMaps, h.o, foreground)
	for _, d := range h.held {
		s.awaitDeleting(t, configMaps, d)
	}
	return h
}

// createTimed makes an object with a timeout of its own.
func (s *server) createTimed(t *testing.T, ns, name, timeout string) *unstructured.Unstructured {
	t.Helper()
	o := object(configMaps, name)
	if timeout != "" {
		o.SetAnnotations(map[string]string{ownTimeout: timeout})
	}
	o, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// awaitTimedOut waits until an object has gone before what it waited for, and users know.
func (s *server) awaitTimedOut(t *testing.T, o *unstructured.Unstructured, blockers ...*unstructured.Unstructured) {
	t.Helper()
	s.awaitGone(t, configMaps, o)
	s.mustBeToldOfTimeout(t, o, blockers...)
	for _, b := range blockers {
		s.mustExist(t, configMaps, b)
	}
}

func (s *server) mustBeToldOfTimeout(t *testing.T, o *unstructured.Unstructured, blockers ...*unstructured.Unstructured) {
	t.Helper()
	events := s.awaitEvents(t, o, timedOut)
	if len(events) != 1 || events[0].Count != 1 || events[0].InvolvedObject.Name != o.GetName() {
		t.Errorf("%s: events %+v", o.GetName(), events)
	}
	text := events[0].Message
	if !strings.Contains(text, fmt.Sprintf(" %d still blocked", len(blockers))) {
		t.Errorf("%s: %q does not say how many there were", o.GetName(), text)
	}
	if len(blockers) > 5 {
		return // only some are named
	}
	for _, b := range blockers {
		if !strings.Contains(text, "configmaps/"+b.GetName()) {
			t.Errorf("%s: %q does not name %s", o.GetName(), text, b.GetName())
		}
	}
}

// replaceUntilGone deletes an object in the foreground and replaces each dependent that is being deleted, as controllers do that
// ignore their object's deletionTimestamp, until the object has timed out. At any time a dependent blocks it.
func (s *server) replaceUntilGone(t *testing.T, ns string) {
	t.Helper()
	o := s.create(t, configMaps, ns, "replaced")
	held := s.createHeld(t, configMaps, ns, "replaced-0", blocking(o))
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitDeleting(t, configMaps, held)
	pace := time.Tick(200 * time.Millisecond) // faster would only keep the server busy
	for i, began := 1, time.Now(); ; i++ {
		if there, err := s.exists(t.Context(), configMaps, o); err != nil {
			t.Fatal(err)
		} else if !there {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("%s still waits, after %d dependents", o.GetName(), i)
		}
		next := s.createHeld(t, configMaps, ns, fmt.Sprintf("replaced-%d", i), blocking(o))
		s.awaitDeleting(t, configMaps, next)
		s.release(t, configMaps, held)
		held = next
		<-pace
	}
	if events := s.awaitEvents(t, o, timedOut); len(events) != 1 {
		t.Errorf("events %+v", events)
	}
	s.release(t, configMaps, held)
	s.awaitGone(t, configMaps, held)
}

// The order in which the deletions end shows when each deadline begins. The server's timeouts are short, so
// the first deadlines all expire when timeouts come into effect.
func TestForegroundDeletionsEndAtTheirDeadlines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a minute and a half")
	}
	const keptFor = 80 * time.Second * min(slowness, 2) // the most that is left of it is waited for
	s := start(t, "--gc-sync-timeout=5s", "--gc-sync-timeout-per-dependent=250ms")
	ns := s.namespace(t, "timeouts")
	told := 0.0

	kept := s.hang(t, ns, "kept", keptFor.String(), 1)
	never := []hung{s.hang(t, ns, "never", "never", 1), s.hang(t, ns, "zero", "0", 1)}
	timed := []hung{
		s.hang(t, ns, "plain", "", 1),
		s.hang(t, ns, "several", "", 7),
		s.hang(t, ns, "short", "1s", 2),
		s.hang(t, ns, "nonsense", "soon", 1),
	}
	// What keeps this dependent is that nobody knows its other owner.
	unknown := nobody(configMaps)
	unknown.APIVersion = "example.invalid/v1"
	blocked := hung{o: s.create(t, configMaps, ns, "blocked")}
	blocked.held = append(blocked.held, s.create(t, configMaps, ns, "unknown", blocking(blocked.o), unknown))
	s.deleteAs(t, configMaps, blocked.o, foreground)
	timed = append(timed, blocked)
	s.replaceUntilGone(t, ns)
	told++
	for _, h := range timed {
		s.awaitTimedOut(t, h.o, h.held...)
		told++
	}
	s.barrier(t, configMaps, ns)
	s.mustBeAsMade(t, configMaps, blocked.held[0])
	s.mustWait(t, configMaps, kept.o)

	told += s.timeoutsInOrder(t, ns)
	for _, h := range append(never, kept) {
		s.mustWait(t, configMaps, h.o)
		s.mustHaveNoEvent(t, h.o, timedOut)
	}
	if got := s.metric(t, timeouts); got != told {
		t.Errorf("%v timeouts were counted, want %v", got, told)
	}

	args := slices.Clone(s.args)
	s.stop(t)
	s.restart(t, append(args, "--gc-cycle-detection=false")...)
	s.timeoutAcrossARestart(t, ns, kept, keptFor)
	for _, h := range never {
		s.mustWait(t, configMaps, h.o)
		s.mustHaveNoEvent(t, h.o, timedOut)
		s.release(t, configMaps, h.held[0])
		s.awaitGone(t, configMaps, h.o)
	}
}

// timeoutsInOrder has deletions that begin when there are timeouts, and returns how many timed out.
func (s *server) timeoutsInOrder(t *testing.T, ns string) float64 {
	t.Helper()
	r := s.record(t, configMaps, ns)
	// Much depends on these, directly or not; they are deleted first.
	many := s.hang(t, ns, "many", "", 41)
	indirect := hung{o: s.create(t, configMaps, ns, "indirect")}
	inner := s.createHeld(t, configMaps, ns, "inner", blocking(indirect.o))
	var below []*unstructured.Unstructured
	for i := range 40 {
		below = append(below, s.createHeld(t, configMaps, ns, fmt.Sprintf("below-%d", i), blocking(inner)))
	}
	s.deleteAs(t, configMaps, indirect.o, foreground)
	for _, o := range below {
		s.awaitDeleting(t, configMaps, o)
	}
	few := s.hang(t, ns, "few", "", 1)

	// Nothing below these two moves after they have been deleted, if nobody makes it.
	still := func(name, timeout string, n int) hung {
		h := hung{o: s.createTimed(t, ns, name, timeout)}
		for i := range n {
			d := s.createHeld(t, configMaps, ns, fmt.Sprintf("%s-held-%d", name, i), blocking(h.o))
			s.deleteAs(t, configMaps, d, background)
			h.held = append(h.held, d)
		}
		s.deleteAs(t, configMaps, h.o, foreground)
		return h
	}
	progress, control := still("progress", "14s", 2), still("control", "14s", 1)
	first, soon := s.hang(t, ns, "first", "5s", 1), s.hang(t, ns, "soon", "8s", 1)
	s.awaitTimedOut(t, first.o, first.held...)
	s.release(t, configMaps, progress.held[0])
	s.awaitTimedOut(t, soon.o, soon.held...)
	s.awaitTimedOut(t, control.o, control.held...)
	s.awaitTimedOut(t, progress.o, progress.held[1:]...)
	s.awaitTimedOut(t, few.o, few.held...)
	s.awaitTimedOut(t, many.o, many.held...)
	s.awaitTimedOut(t, indirect.o, inner)
	s.mustBeToldOfTimeout(t, inner, below...) // it is held itself

	ended := slices.Concat(ends(r.awaitEnd(t, progress.o)), ends(r.awaitEnd(t, many.o)), ends(r.awaitEnd(t, indirect.o)))
	mustEndBefore(t, ended, first.o, soon.o)
	mustEndBefore(t, ended, soon.o, control.o)
	mustEndBefore(t, ended, control.o, progress.o)
	mustEndBefore(t, ended, few.o, many.o)
	mustEndBefore(t, ended, few.o, indirect.o)
	return 8
}

// timeoutAcrossARestart has a server that does not look for rings, and a deletion that has waited for
// long under the last one.
func (s *server) timeoutAcrossARestart(t *testing.T, ns string, kept hung, keptFor time.Duration) {
	t.Helper()
	s.mustWait(t, configMaps, kept.o)
	r := s.record(t, configMaps, ns)
	now, err := s.meta.Resource(configMaps.gvr).Namespace(ns).Get(t.Context(), kept.o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// This one's time is up after that of the other, and long before it would be had that started over.
	const after = 8 * time.Second
	left := max(keptFor-time.Since(now.DeletionTimestamp.Time), noTimeoutBefore) + after
	t.Logf("%s of %s are left", left-after, keptFor)
	if left+after > keptFor {
		t.Fatal("too little time has passed")
	}
	later := s.hang(t, ns, "later", left.String(), 1)
	ring := s.ring(t, ns, "ring", configMaps, configMaps)
	s.deleteAs(t, configMaps, ring[0].o, foreground)

	s.awaitTimedOut(t, kept.o, kept.held...)
	for _, m := range ring {
		s.awaitGone(t, m.k, m.o)
		s.mustHaveNoEvent(t, m.o, cycleBroken)
	}
	s.awaitTimedOut(t, later.o, later.held...)
	mustEndBefore(t, ends(r.awaitEnd(t, later.o)), kept.o, later.o)
	// When one member's time is up, the other waits for nothing any more.
	if got := s.metric(t, timeouts); got < 3 || got > 4 {
		t.Errorf("%v timeouts were counted", got)
	}
	if got := s.metric(t, cyclesBroken); got != 0 {
		t.Errorf("%v rings were broken", got)
	}
}
