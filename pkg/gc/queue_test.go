package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// queueBy returns a queue of objects whose UIDs begin with their namespaces.
func queueBy(now func() time.Time) *queue {
	return newQueue("", func(k graph.Key) string { return string(k.UID[:1]) }, now)
}

func key(uid string) graph.Key { return graph.Key{Resource: configMaps, UID: types.UID(uid)} }

func take(t *testing.T, q *queue, n int) (uids []string) {
	t.Helper()
	for range n {
		k, _ := q.Get()
		uids = append(uids, string(k.UID))
		q.Done(k)
	}
	return uids
}

func TestNamespacesTakeTurns(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	for _, uid := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
		q.Add(key(uid))
	}
	if got, want := take(t, q, 3), []string{"a1", "b1", "c1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.Add(key("c2")) // whoever comes back is last
	q.Add(key("d1"))
	if got, want := take(t, q, 6), []string{"a2", "b2", "c2", "d1", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := q.Len(); n != 0 || len(q.lanes.byNamespace) != 0 || len(q.lanes.turns) != 0 {
		t.Errorf("%d are left, in %d lanes", n, len(q.lanes.byNamespace))
	}
}

// Twenty thousand objects of one namespace are queued before ten of another: those
// are done when as many of the first have been, not after all.
func TestSmallCascadeBesideALargeOne(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	for i := range 20_000 {
		q.Add(key(fmt.Sprint("a", i)))
	}
	for i := range 10 {
		q.Add(key(fmt.Sprint("b", i)))
	}
	small := 0
	for _, uid := range take(t, q, 20) {
		if uid[0] == 'b' {
			small++
		}
	}
	if small != 10 {
		t.Errorf("%d of ten are done", small)
	}
}

func TestQueueKnowsTheAgeOfItsOldest(t *testing.T) {
	clock := time.Unix(0, 0)
	q := queueBy(func() time.Time { return clock })
	defer q.ShutDown()
	q.Add(key("a1"))
	clock = clock.Add(time.Minute)
	q.Add(key("b1"))
	clock = clock.Add(time.Minute)
	if age := q.lanes.age(); age != 2*time.Minute {
		t.Errorf("age %v", age)
	}
	take(t, q, 1)
	if age := q.lanes.age(); age != time.Minute {
		t.Errorf("age %v", age)
	}
	take(t, q, 1)
	if age := q.lanes.age(); age != 0 {
		t.Errorf("age %v", age)
	}
}

// An object that can make no progress costs little, for as long as that lasts.
func TestFailuresAreTriedAgainEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := collectorOf(t, func() time.Time { return time.Now() })
		tries := map[string]int{}
		attempt := func(_ context.Context, k graph.Key) (time.Time, error) {
			tries[string(k.UID)]++
			if k.UID == "storm" {
				return time.Time{}, errKeepsChanging
			}
			return time.Time{}, errors.New("no")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.work(ctx, ctx, c.queue, attempt)
		}()
		c.queue.Add(key("never"))
		c.queue.Add(key("storm"))
		time.Sleep(time.Hour)
		cancel()
		c.queue.ShutDown()
		<-done
		// An attempt is up to two calls, and there are sixty minutes; the first delays
		// are short.
		if n := tries["never"]; n > 30+14 || n < 30 {
			t.Errorf("an object that cannot be finished with was tried %d times in an hour", n)
		}
		if n := tries["storm"]; n < 1000 {
			t.Errorf("an object that keeps changing was tried %d times in an hour", n)
		}
	})
}

// collectorOf returns a collector that reaches no server.
func collectorOf(t *testing.T, now func() time.Time) (*Collector, *gate) {
	t.Helper()
	c := &Collector{graph: graph.New(), log: quiet(), now: now}
	c.queue = newQueue("", c.graph.Namespace, now)
	c.gate = newGate(now, c.log)
	c.gate.set(pause.State{})
	return c, c.gate
}
