package gc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/bubble"
)

// queueBy returns a queue of objects whose UIDs begin with their namespaces. Each + in a
// UID stands for a hundred references.
func queueBy(now func() time.Time) *queue {
	return newQueue("", func(k graph.Key) (string, int) { return string(k.UID[:1]), strings.Count(string(k.UID), "+") * 100 }, now)
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
	q.Add(key("c2")) // an object that comes back is last
	q.Add(key("d1"))
	if got, want := take(t, q, 6), []string{"a2", "b2", "c2", "d1", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := q.Len(); n != 0 || len(q.lanes.byNamespace) != 0 || len(q.lanes.turns) != 0 {
		t.Errorf("%d are left, in %d lanes", n, len(q.lanes.byNamespace))
	}
}

// A cascade of ten objects begins, level by level, in one namespace while twenty thousand
// objects of another wait, some of which come back. The cascade must be done when about
// as many of those have had their turns, not after all of them.
func TestSmallCascadeBesideALargeOne(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	for i := range 20_000 {
		q.Add(key(fmt.Sprint("a", i)))
	}
	take(t, q, 1000) // the large cascade is under way
	below := map[string][]string{"b0": {"b1", "b2", "b3"}, "b2": {"b4", "b5"}, "b5": {"b6"}, "b6": {"b7", "b8", "b9"}}
	q.Add(key("b0"))
	turns, small := 0, 0
	for small < 10 && turns < 1000 {
		k, _ := q.Get()
		turns++
		if k.UID[0] == 'b' {
			small++
			for _, uid := range below[string(k.UID)] {
				q.Add(key(uid))
			}
		} else if turns%4 == 0 {
			q.Add(k)
		}
		q.Done(k)
	}
	if small != 10 || turns > 20 {
		t.Errorf("%d of ten are done after %d turns", small, turns)
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
		t.Errorf("the age is %v, want 2m", age)
	}
	take(t, q, 1)
	if age := q.lanes.age(); age != time.Minute {
		t.Errorf("the age is %v, want 1m", age)
	}
	take(t, q, 1)
	if age := q.lanes.age(); age != 0 {
		t.Errorf("the age is %v, want 0", age)
	}
}

// An object that can make no progress costs little, however long that lasts.
func TestFailuresAreTriedAgainEverLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := poolOf(t, time.Now)
		tries := map[string]int{}
		p.attempt = func(_ context.Context, k graph.Key) (time.Time, error) {
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
			p.work(ctx, ctx)
		}()
		p.queue.Add(key("never"))
		p.queue.Add(key("storm"))
		time.Sleep(time.Hour)
		cancel()
		p.queue.ShutDown()
		<-done
		// An attempt makes up to two calls, and an hour has sixty minutes; the first
		// delays are short.
		if n := tries["never"]; n > 30+14 || n < 30 {
			t.Errorf("an object that cannot be finished with was tried %d times in an hour", n)
		}
		if n := tries["storm"]; n < 1000 {
			t.Errorf("an object that keeps changing was tried %d times in an hour", n)
		}
	})
}

// poolOf returns a pool that is not paused; the test sets its attempts.
func poolOf(t *testing.T, now func() time.Time) *pool {
	t.Helper()
	p := &pool{queue: newQueue("", graph.New().Shape, now), gate: newGate(now, quiet()), now: now, log: quiet()}
	p.gate.set(pause.State{})
	return p
}

// An object with many references costs its namespace as many turns as it takes work.
func TestObjectWithManyReferencesPaysForThem(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	const five = "+++++"
	for _, uid := range []string{"a1" + five, "a2" + five, "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8"} {
		q.Add(key(uid))
	}
	want := []string{"a1" + five, "b1", "b2", "b3", "b4", "b5", "b6", "a2" + five, "b7", "b8"}
	if got := take(t, q, 10); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// Its namespace owes turns for it even when none of its objects waits.
	for _, uid := range []string{"a3", "b9", "c1", "c2", "c3"} {
		q.Add(key(uid))
	}
	if got, want := take(t, q, 5), []string{"b9", "c1", "c2", "c3", "a3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Objects with very many references come after the others of their namespace.
func TestHeavyObjectsComeLast(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	heaviest := "a1" + strings.Repeat("+", 11)
	for _, uid := range []string{heaviest, "a2", "a3"} {
		q.Add(key(uid))
	}
	if got, want := take(t, q, 3), []string{"a2", "a3", heaviest}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The debts that are remembered for namespaces without waiting objects are bounded.
func TestDebtsAreBounded(t *testing.T) {
	q := queueBy(time.Now)
	defer q.ShutDown()
	q.lanes.shape = func(k graph.Key) (string, int) { return string(k.UID), 900 }
	for i := range 3 * debtsKept {
		q.Add(key(fmt.Sprint("n", i)))
	}
	take(t, q, 3*debtsKept)
	if n := len(q.lanes.debts); n == 0 || n > debtsKept {
		t.Errorf("%d debts are remembered", n)
	}
}

// TestQueueKeepsLittleOfWhatWasInIt: all of a server's objects are in the queue at once when it starts.
func TestQueueKeepsLittleOfWhatWasInIt(t *testing.T) {
	const objects = 50_000
	q := newQueue("test_of_memory", func(graph.Key) (string, int) { return "", 0 }, time.Now) // with metrics
	defer q.ShutDown()
	live := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	empty := live()
	for i := range objects {
		q.Add(key(fmt.Sprint(i)))
	}
	take(t, q, objects)
	// With keys in client-go's maps it would be 188 bytes for each object. The runtime forgets handles some time after the collection that
	// finds them unused.
	var kept int64
	for range 100 {
		if kept = live() - empty; kept < 130*objects {
			break
		}
	}
	if kept >= 130*objects {
		t.Errorf("an empty queue keeps %d bytes of the %d objects that were in it", kept, objects)
	}
	runtime.KeepAlive(q)
}
