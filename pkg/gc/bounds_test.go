package gc

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestManyWaitingOwnersAreReadInTurns: reading all the owners takes several turns, and
// longer than one read of a waiting owner counts by itself. The object is deleted all
// the same.
func TestManyWaitingOwnersAreReadInTurns(t *testing.T) {
	const n = 4 * decide.VerifyAtOnce
	c, s := collector(t, false)
	clock := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return clock }
	var owners []metav1.OwnerReference
	for i := range n {
		name := fmt.Sprint("owner", i)
		waiting(c, s, name, types.UID(name))
		owners = append(owners, ref(name, types.UID(name)))
	}
	k := show(c, s.put("child", "c", owners...))
	reads := 0
	s.before = func(call string) {
		if strings.HasPrefix(call, "GET owner") {
			reads++
			clock = clock.Add(20 * time.Millisecond)
		}
	}
	for turn := 1; turn <= n/decide.VerifyAtOnce; turn++ {
		before := reads
		err := attemptOnce(t, c, k)
		if last := turn == n/decide.VerifyAtOnce; last && err != nil || !last && !errors.Is(err, errTurnOver) {
			t.Fatalf("turn %d ended with %v", turn, err)
		}
		if got := reads - before; got != decide.VerifyAtOnce {
			t.Errorf("turn %d: %d reads", turn, got)
		}
	}
	if s.has("child") {
		t.Error("the object is still there")
	}
}

// TestOneUIDInManyPlacesIsReadInTurns: more places than a turn reads are named for one UID, and it is in none of them. What
// one turn has found out, the last still knows.
func TestOneUIDInManyPlacesIsReadInTurns(t *testing.T) {
	const n = 4 * decide.VerifyAtOnce
	c, s := collector(t, false)
	var owners []metav1.OwnerReference
	for i := range n {
		owners = append(owners, ref(fmt.Sprint("owner", i), "o"))
	}
	k := show(c, s.put("child", "c", owners...))
	for turn := 1; turn <= n/decide.VerifyAtOnce; turn++ {
		err := attemptOnce(t, c, k)
		if last := turn == n/decide.VerifyAtOnce; last && err != nil || !last && !errors.Is(err, errTurnOver) {
			t.Fatalf("turn %d ended with %v", turn, err)
		}
	}
	if s.has("child") {
		t.Error("the object is still there")
	}
}

// TestOwnerThatCannotBeReadKeepsNoOtherFromBeingRead: an owner of a kind whose reads
// fail does not use up the turns.
func TestOwnerThatCannotBeReadKeepsNoOtherFromBeingRead(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("broken", "b"), ref("gone", "g")))
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call != "GET broken" {
			return false
		}
		http.NotFound(w, nil) // proves nothing
		return true
	}
	if err := attemptOnce(t, c, k); err == nil {
		t.Error("an owner that cannot be read passes for read")
	}
	s.wantCalls("GET broken", "GET gone")
	v, _ := c.graph.View(k)
	if f := v.Owners[1].Fact; f.State != graph.Absent {
		t.Errorf("what was proved is %+v", f)
	}
}

// TestNotFoundUpdatesTheGraph: an object that the server does not have no longer blocks its
// owner, even if its monitor missed the deletion. Any call can show that.
func TestNotFoundUpdatesTheGraph(t *testing.T) {
	for name, ghost := range map[string]func(*Collector, *store) graph.Key{
		"a DELETE": func(c *Collector, s *store) graph.Key {
			// One owner is gone and the other waits, so the object would be deleted.
			c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "gone", UID: "g"}, c.now())
			return show(c, s.put("ghost", "1", blocking("owner", "o"), ref("gone", "g")))
		},
		"a read before a release": func(c *Collector, s *store) graph.Key {
			m := s.deleting("ghost", "1", metav1.FinalizerDeleteDependents)
			m.OwnerReferences = []metav1.OwnerReference{blocking("owner", "o")}
			c.graph.Upsert(configMaps, graph.RecordOf(m), c.now().Add(-time.Minute))
			return key("1")
		},
		"another object of the name": func(c *Collector, s *store) graph.Key {
			k := show(c, s.put("ghost", "1", blocking("owner", "o"), ref("gone", "g")))
			c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "gone", UID: "g"}, c.now())
			s.put("other", "2")
			return k
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := collector(t, false)
			synced(c)
			o := waiting(c, s, "owner", "o")
			k := ghost(c, s)
			c.graph.Learn("g", graph.Coordinates{Kind: "ConfigMap", Namespace: "ns", Name: "gone"}, graph.Fact{State: graph.Absent})
			delete(s.objects, "ghost")
			if name == "another object of the name" {
				s.put("ghost", "2")
			}
			if v, _ := c.graph.View(o); v.Blocking != 1 {
				t.Fatalf("%d references block the owner before", v.Blocking)
			}
			if err := attemptOnce(t, c, k); err != nil {
				t.Fatal(err)
			}
			if v, _ := c.graph.View(o); v.Blocking != 0 {
				t.Errorf("the ghost blocks its owner still")
			}
			if name == "another object of the name" && !s.has("ghost") {
				t.Error("another object was deleted")
			}
			woken := false
			for c.deleting.queue.Len() > 0 {
				k, _ := c.deleting.queue.Get()
				woken = woken || k == o
				c.deleting.queue.Done(k)
			}
			if !woken {
				t.Error("the owner is not looked at again")
			}
		})
	}
}

// TestOrphaningOfManyTakesTurns: orphaning thousands of dependents does not keep other
// owners waiting until all are free, and frees no dependent twice.
func TestOrphaningOfManyTakesTurns(t *testing.T) {
	const n = 2*freedPerTurn + 10
	c, s := collector(t, false)
	for i := range n {
		show(c, s.put(fmt.Sprint("child", i), types.UID(fmt.Sprint("c", i)), ref("owner", "o")))
	}
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	patches := func() (n int) {
		for _, call := range s.calls {
			if strings.HasPrefix(call, "PATCH child") {
				n++
			}
		}
		return n
	}
	// No event comes between the turns.
	for turn, want := range []int{freedPerTurn, 2 * freedPerTurn} {
		if err := orphanOnce(t, c, k); !errors.Is(err, errTurnOver) {
			t.Fatalf("turn %d ended with %v", turn, err)
		}
		if got := patches(); got != want {
			t.Errorf("%d patches after turn %d", got, turn)
		}
	}
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	if got := patches(); got != n || s.has("owner") {
		t.Errorf("%d patches, owner there: %v", got, s.has("owner"))
	}
	if len(c.orphaner.progress.all) != 0 {
		t.Error("an orphaning that has ended is remembered")
	}
}

// TestTombstonesOfOneNamespaceDoNotEvictAnothers: one tenant's orphanings do not decide
// what becomes of another's dependents.
func TestTombstonesOfOneNamespaceDoNotEvictAnothers(t *testing.T) {
	tombs := newTombstones()
	tombs.add("quiet", "q")
	for i := range 2 * tombstonesKept {
		tombs.add("busy", types.UID(fmt.Sprint(i)))
	}
	if !tombs.has("q") || !tombs.has(types.UID(fmt.Sprint(2*tombstonesKept-1))) || tombs.has("0") {
		t.Errorf("quiet %v, newest %v, oldest %v", tombs.has("q"), tombs.has(types.UID(fmt.Sprint(2*tombstonesKept-1))), tombs.has("0"))
	}
	if n := len(tombs.uids); n != tombstonesKept+1 {
		t.Errorf("%d owners are remembered", n)
	}
	tombs.remove("quiet", "q")
	if _, kept := tombs.byNamespace["quiet"]; kept || tombs.has("q") {
		t.Error("an owner that was not deleted is remembered")
	}
}

// TestRingThatCannotBeBrokenKeepsNoOtherWaiting: each ring has its own delay.
func TestRingThatCannotBeBrokenKeepsNoOtherWaiting(t *testing.T) {
	c, s := collector(t, false)
	clock := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return clock }
	ringMember(c, s, "a", blocking("b", "b"))
	ringMember(c, s, "b", blocking("a", "a"))
	s.objects["a"].ResourceVersion = "999" // changed, and no event comes
	reads := func() (n int) {
		for _, call := range s.calls {
			if call == "GET a" {
				n++
			}
		}
		return n
	}
	c.breaker.breakAll(t.Context())
	ringMember(c, s, "x", blocking("x", "x"))
	c.breaker.breakAll(t.Context())
	if got := blocks(s.objects["x"]); got[0] {
		t.Error("the other ring is not broken")
	}
	show(c, s.objects["x"])
	if n := reads(); n != 1 {
		t.Errorf("the ring that cannot be broken was tried %d times at once", n)
	}
	clock = clock.Add(ringsEvery)
	if !c.breaker.due() {
		t.Error("it is not due")
	}
	c.breaker.breakAll(t.Context())
	if n := reads(); n != 2 {
		t.Errorf("it was tried %d times in all", n)
	}
	clock = clock.Add(ringsEvery)
	if c.breaker.due() {
		t.Error("the delay of a ring that cannot be broken has not grown")
	}
}
