package graph

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// excerptWorld returns a graph whose root has many dependents. Each of them has a dependent of its
// own and further owners.
func excerptWorld(dependents int) (g *Graph, gr schema.GroupResource, now time.Time) {
	now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	r := &Resource{Name: "things", Kind: "Thing", Versions: []string{"v1"}, Namespaced: true, Monitored: true}
	g, gr = New(), r.GroupResource()
	g.SetCatalog(NewCatalog([]*Resource{r}), now)
	g.AddResource(gr, r.GroupKind(), now)
	g.Listed(gr, now)
	put := func(uid string, owners ...string) {
		rec := &Record{Namespace: "n", Name: uid, UID: types.UID(uid), ResourceVersion: "1"}
		for _, o := range owners {
			rec.References = append(rec.References, Reference{APIVersion: "v1", Kind: "Thing", Name: o, UID: types.UID(o), BlockOwnerDeletion: True})
		}
		g.Upsert(gr, rec, now)
	}
	put("above")
	put("beside", "above")
	put("root", "above")
	for i := range dependents {
		d := fmt.Sprintf("d%d", i)
		put(d, "root", "beside", "absent")
		put("leaf-"+d, d)
	}
	put("unrelated", "beside")
	g.Learn("absent", Coordinates{Kind: "Thing", Namespace: "n", Name: "absent"}, Fact{State: Absent})
	return g, gr, now
}

func nothing(Node) Contents { return Contents{} }

func TestExcerptHoldsReachableObjects(t *testing.T) {
	g, gr, _ := excerptWorld(40)
	x := g.Excerpt([]Key{{gr, "root"}, {gr, "never-was"}}, nothing)
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	if len(x.Reached) != 81 || x.Count(gr) != 83 || slices.Contains(x.Reached, Key{gr, "beside"}) {
		t.Errorf("%d objects are reached, %d are there", len(x.Reached), x.Count(gr))
	}
	for _, k := range x.Reached {
		want, _ := g.View(k)
		got, ok := x.View(k)
		if !ok || got.Record != want.Record || got.HasDependents != want.HasDependents || len(got.Owners) != len(want.Owners) {
			t.Fatalf("%s: got %+v, want %+v", k.UID, got, want)
		}
		for i, o := range want.Owners {
			if got := got.Owners[i]; got.Fact != o.Fact || (got.Observed == nil) != (o.Observed == nil) {
				t.Errorf("%s: got owner %+v, want %+v", k.UID, got, o)
			}
		}
	}
	if _, ok := x.View(Key{gr, "unrelated"}); ok {
		t.Error("what is not reached is copied")
	}
	if !x.Lists(gr) {
		t.Error("the resource is listed")
	}
	// Changes to the copy do not change the graph.
	v, _ := x.View(Key{gr, "root"})
	x.Deleted(gr, v.Record, time.Time{})
	if _, ok := g.View(Key{gr, "root"}); !ok || g.Check() != nil {
		t.Error("the graph changes with its copy")
	}
}

// An owner in foreground deletion goes once nothing blocks it, and its other dependents follow.
func TestExcerptReachesWaitingOwners(t *testing.T) {
	g, gr, now := excerptWorld(1)
	v, _ := g.View(Key{gr, "beside"})
	waits := *v.Record
	waits.Deleting, waits.Foreground, waits.DeletedAt, waits.ResourceVersion = true, true, now.Unix(), "2"
	g.Upsert(gr, &waits, now)
	x := g.Excerpt([]Key{{gr, "leaf-d0"}}, nothing)
	if len(x.Reached) != 1 {
		t.Errorf("a leaf reaches %v, want itself alone", x.Reached)
	}
	x = g.Excerpt([]Key{{gr, "d0"}}, nothing)
	if !slices.Contains(x.Reached, Key{gr, "beside"}) || !slices.Contains(x.Reached, Key{gr, "unrelated"}) || slices.Contains(x.Reached, Key{gr, "above"}) {
		t.Errorf("d0 reaches %v", x.Reached)
	}
	if got, _ := x.View(Key{gr, "beside"}); got.Blocking != 2 || !got.Wait.Since.Equal(now) {
		t.Errorf("the owner waits for %d since %s", got.Blocking, got.Wait.Since)
	}
}

// TestExcerptLeavesOutNewResources: a resource is announced while the excerpt is made, and one of its objects names an
// object that is reached.
func TestExcerptLeavesOutNewResources(t *testing.T) {
	g, gr, now := excerptWorld(4 * excerptPiece)
	late := schema.GroupResource{Group: "late", Resource: "lates"}
	looked := 0
	x := g.Excerpt([]Key{{gr, "root"}}, func(Node) Contents {
		if looked++; looked == 1 { // between two pieces
			g.AddResource(late, schema.GroupKind{Group: "late", Kind: "Late"}, now)
			root, _ := g.View(Key{gr, "d0"})
			for i := range 4 * excerptPiece {
				g.Upsert(late, &Record{Namespace: "n", Name: fmt.Sprint("late", i), UID: types.UID(fmt.Sprint("late", i)), ResourceVersion: "1", References: []Reference{
					{APIVersion: "v1", Kind: "Thing", Name: root.Record.Name, UID: types.UID(fmt.Sprint("d", i))},
				}}, now)
			}
		}
		return Contents{}
	})
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	if len(x.Reached) < 4*excerptPiece {
		t.Errorf("%d objects are reached", len(x.Reached))
	}
}

// Events are applied while a large part is copied, and the copy stays consistent.
func TestExcerptLetsEventsIn(t *testing.T) {
	g, gr, now := excerptWorld(4 * excerptPiece)
	contains := func(n Node) Contents {
		if n.Record.Name == "root" {
			return Contents{Namespace: "n"}
		}
		return Contents{}
	}
	var pieces int
	x := g.Excerpt([]Key{{gr, "root"}}, func(n Node) Contents {
		// This runs between two pieces, when others may write: an event that arrives now is applied.
		if pieces++; pieces%excerptPiece == 0 {
			g.Upsert(gr, &Record{Namespace: "n", Name: fmt.Sprint("new", pieces), UID: types.UID(fmt.Sprint("new", pieces)), ResourceVersion: "1"}, now)
			if v, ok := g.View(Key{gr, types.UID(fmt.Sprint("leaf-d", pieces))}); ok {
				g.Deleted(gr, v.Record, now)
			}
		}
		return contains(n)
	})
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
	if n := len(x.Reached); n < 8*excerptPiece {
		t.Errorf("%d objects are reached", n)
	}
	if _, ok := g.View(Key{gr, types.UID(fmt.Sprint("new", excerptPiece))}); !ok {
		t.Error("no event was taken in")
	}
}
