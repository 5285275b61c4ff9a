package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unique"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
)

// TestSlowNamespaceLeavesWorkersToOthers: a webhook of one namespace does not answer, and far more objects there are due than there are
// workers. Objects of other namespaces wait once, until the calls that had all workers have ended, and never again.
func TestSlowNamespaceLeavesWorkersToOthers(t *testing.T) {
	const workers, hangs = 4, 10 * time.Second
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		p.queue.lanes.shape = func(k graph.Key) (string, int) { return string(k.UID[:1]), 0 }
		p.queue.lanes.limitSlow(workers / 2)
		var slow int
		var mu sync.Mutex
		done := make(chan struct{})
		p.attempt = func(_ context.Context, k graph.Key) (time.Time, error) {
			if k.UID[0] == 'a' {
				time.Sleep(hangs)
				mu.Lock()
				defer mu.Unlock()
				slow++
				return time.Time{}, errors.New("the webhook does not answer")
			}
			done <- struct{}{}
			return time.Time{}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var working sync.WaitGroup
		for i := range 500 {
			p.queue.Add(key(fmt.Sprint("a", i)))
		}
		for range workers {
			working.Go(func() { p.work(ctx, ctx) })
		}
		time.Sleep(hangs + time.Second)
		for i := range 100 {
			began := time.Now()
			p.queue.Add(key(fmt.Sprint("b", i)))
			<-done
			if waited := time.Since(began); waited > 0 {
				t.Fatalf("object %d of another namespace waited for %s", i, waited)
			}
			time.Sleep(time.Second)
		}
		mu.Lock()
		if most := 101 / 10 * workers / 2; slow < most {
			t.Errorf("%d objects of the slow namespace had their turns, want %d", slow, most)
		}
		mu.Unlock()
		if n := p.queue.report("").Length; n < 400 {
			t.Errorf("the report has %d objects that wait", n)
		}
		cancel()
		p.queue.ShutDown()
		working.Wait()
	})
}

// TestNamespaceIsNotSlowForEver: some time after its last slow turn a namespace has all workers again, and what could not be taken
// before is taken by whoever gives one back.
func TestNamespaceIsNotSlowForEver(t *testing.T) {
	clock := time.Unix(0, 0)
	q := queueBy(func() time.Time { return clock })
	defer q.ShutDown()
	q.lanes.limitSlow(1)
	for i := range 4 {
		q.Add(key(fmt.Sprint("a", i)))
	}
	first, _ := q.Get()
	clock = clock.Add(slowTurn)
	q.Done(first)
	second, _ := q.Get()
	if n := q.Len(); n != 0 || q.lanes.waiting() != 2 {
		t.Errorf("%d of %d may be taken", n, q.lanes.waiting())
	}
	q.Add(key("b0"))
	if got := take(t, q, 1); !slices.Equal(got, []string{"b0"}) {
		t.Errorf("got %v", got)
	}
	q.Done(second)
	if n := q.Len(); n != 2 {
		t.Errorf("%d may be taken, want 2", n)
	}
	third, _ := q.Get()
	clock = clock.Add(slowFor)
	if n := q.Len(); n != 1 {
		t.Errorf("%d may be taken once the namespace is slow no more", n)
	}
	q.Done(third) // for which it is slow again
	if n := q.Len(); n != 1 || q.lanes.slowOut != 0 || len(q.lanes.out) != 0 {
		t.Errorf("%d may be taken, %d are out", n, q.lanes.slowOut)
	}
}

// TestManySlowNamespacesAreBounded: however many namespaces are slow, the queue remembers some.
func TestManySlowNamespacesAreBounded(t *testing.T) {
	clock := time.Unix(0, 0)
	l := newLanes(func(k graph.Key) (string, int) { return string(k.UID), 0 }, func() time.Time { return clock })
	for i := range 2 * slowKept {
		h := unique.Make(key(fmt.Sprint(i)))
		l.out[h] = turnUnderWay{namespace: fmt.Sprint(i), since: clock.Add(-slowTurn)}
		l.done(h)
	}
	if n := len(l.slow); n != slowKept {
		t.Errorf("%d are remembered, want %d", n, slowKept)
	}
	clock = clock.Add(slowFor)
	h := unique.Make(key("late"))
	l.out[h] = turnUnderWay{namespace: "late", since: clock.Add(-slowTurn)}
	l.done(h)
	if !l.isSlow("late") || len(l.slow) != 1 {
		t.Errorf("those that are slow no more take the place of one that is: %d", len(l.slow))
	}
}
