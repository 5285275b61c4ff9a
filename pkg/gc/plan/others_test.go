package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestOrphaningAloneHasOneOutcome: if dependents only lose one owner and nothing else happens, every schedule has
// the same outcome, so one schedule is enough.
func TestOrphaningAloneHasOneOutcome(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	alone, besides := 0, 0
	for range 3000 {
		c := newCluster()
		n := 2 + r.IntN(6)
		for i := range n {
			var owners []string
			for j := range i {
				if r.IntN(3) == 0 {
					owners = append(owners, fmt.Sprint("o", j))
				}
			}
			switch r.IntN(12) {
			case 0:
				owners = append(owners, "Thing/gone")
			case 1:
				owners = append(owners, "Gadget/nobody")
			}
			c.put("Thing", "n", graph.Record{Name: fmt.Sprint("o", i), Foreground: r.IntN(12) == 0, Orphan: r.IntN(12) == 0}, owners...)
		}
		w := Take(c.Graph, []graph.Key{c.key("o0")})
		usual := w.run(orphan, Rules{Rings: true}, schedule{}, now)
		if !usual.orphaned || usual.raced {
			continue
		}
		if !usual.onlyOrphans() {
			besides++
			continue
		}
		alone++
		want := usual.outcome()
		for i, got := range w.others(orphan, Rules{Rings: true}, now, schedules()) {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("schedule %d: got %+v, want %+v", i, got, want)
			}
		}
	}
	if alone < 200 || besides < 200 {
		t.Errorf("%d orphanings alone and %d with more were tried", alone, besides)
	}
}

// TestOrphaningAloneIsSimulatedOnce counts how often the plan asks about an owner.
func TestOrphaningAloneIsSimulatedOnce(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	for i := range 20 {
		c.put("Thing", "n", graph.Record{Name: fmt.Sprint("d", i)}, "owner", "Shadow/other")
	}
	w := Take(c.Graph, []graph.Key{c.key("owner")})
	for _, o := range w.Unseen(now, 1) {
		w.Learn(o.Reference.UID, o.At, graph.Fact{State: graph.Present, Seen: now, Version: "1"})
	}
	asked := 0
	rules := Rules{Orphaned: func(types.UID) bool {
		asked++
		return false
	}}
	w.run(orphan, rules, schedule{}, now)
	once := asked
	asked = 0
	if _, err := w.Delete(t.Context(), orphan, rules, now); err != nil {
		t.Fatal(err)
	}
	if once == 0 || asked >= 2*once { // objects that are kept are explained once more
		t.Errorf("the plan asked %d times, one simulation %d times", asked, once)
	}
}
