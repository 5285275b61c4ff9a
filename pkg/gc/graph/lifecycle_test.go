package graph

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEmptyGraphKnowsNothing(t *testing.T) {
	g := &checked{New(), t, epoch}
	g.wantStats(0, 0, 0)
	if _, ok := g.View(key(things, "a")); ok {
		t.Error("an empty graph shows an object")
	}
	if n := len(g.Catalog().Resources()); n != 0 {
		t.Errorf("an empty graph knows %d resources", n)
	}
	wantKeys(t, "vanished", g.vanish(things, "a"))
	wantKeys(t, "deleted", g.end(things, object("n", "a")))
	wantKeys(t, "resource removed", g.drop(things))
}

func TestObjectsOfAResourceNotAnnouncedAreIgnored(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o")))
	g.drop(widgets)
	wantKeys(t, "upsert", g.show(widgets, object("n", "o")))
	wantKeys(t, "deleted", g.end(widgets, object("n", "o")))
	if o := g.owners(things, "d")[0]; o.Observed != nil || o.Fact != (Fact{}) {
		t.Errorf("an event of a resource that is not announced left %+v", o)
	}
	g.wantStats(1, 1, 1)
}

func TestUpsertReplacesTheRecord(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o"), to(widgets, "p")))
	g.wantStats(1, 2, 2)
	newer := object("n", "d", to(widgets, "p"))
	newer.ResourceVersion = "2"
	g.show(things, newer)
	g.wantStats(1, 1, 1)
	if v, _ := g.View(key(things, "d")); v.Record != newer {
		t.Errorf("the view shows %+v", v.Record)
	}
	if n := g.Count(things.GroupResource()); n != 1 {
		t.Errorf("%d things are counted", n)
	}
}

func TestDeletedLeavesNothingOfTheObject(t *testing.T) {
	g := newGraph(t)
	d := object("n", "d", to(widgets, "o"))
	g.show(things, d)
	g.end(things, d)
	g.wantStats(0, 0, 0)
	if _, ok := g.View(key(things, "d")); ok {
		t.Error("a deleted object is still shown")
	}
	g.end(things, d) // again: an event for an object that is not shown
	g.wantStats(0, 0, 0)
}

func TestDeletedGoesByTheGraphsOwnRecord(t *testing.T) {
	// The event's record may declare other references than the one shown before.
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o")))
	g.end(things, object("n", "d", to(widgets, "p"), to(widgets, "q")))
	g.wantStats(0, 0, 0)
}

func TestVanishedOfAnObjectNotShownIsNothing(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o")))
	wantKeys(t, "vanished", g.vanish(widgets, "o"))
	wantKeys(t, "vanished under another resource", g.vanish(widgets, "d"))
	g.wantStats(1, 1, 1)
}

func TestNameShowsAnotherUID(t *testing.T) {
	g := newGraph(t)
	old := object("n", "o1")
	old.Name = "o"
	ref := to(widgets, "o1")
	ref.Name = "o"
	g.show(widgets, old)
	g.show(things, object("n", "d", ref))
	wantKeys(t, "old vanished", g.vanish(widgets, "o1"), key(widgets, "o1"))
	next := object("n", "o2")
	next.Name = "o"
	wantKeys(t, "new shown", g.show(widgets, next))
	if o := g.owners(things, "d")[0]; o.Observed != old || o.Fact.Proved() {
		t.Errorf("the next object of the name answers for the old one: %+v", o)
	}
	g.wantStats(3, 0, 1)
	wantKeys(t, "a live read has found the other UID", g.end(widgets, old), key(things, "d"))
	if o := g.owners(things, "d")[0]; o.Observed != nil || o.Fact.State != Gone {
		t.Errorf("got %+v", o)
	}
	g.wantStats(2, 1, 1)
}

func TestDuplicateReferencesAreCountedOneByOne(t *testing.T) {
	g := newGraph(t)
	twice := to(widgets, "o")
	blocking := twice
	blocking.BlockOwnerDeletion = True
	g.show(things, object("n", "d", twice, twice, blocking))
	g.wantStats(1, 1, 3)
	if n := len(g.owners(things, "d")); n != 3 {
		t.Errorf("%d owners are shown, want each reference", n)
	}
	wantKeys(t, "owner's end", g.end(widgets, object("n", "o")), key(things, "d"))
	g.show(things, object("n", "d", blocking))
	g.wantStats(1, 1, 1)
	if f := g.owners(things, "d")[0].Fact; f.State != Gone {
		t.Errorf("dropping a duplicate lost what was known: %+v", f)
	}
	g.show(things, object("n", "d"))
	g.wantStats(1, 0, 0)
}

func TestSelfReference(t *testing.T) {
	g := newGraph(t)
	self := object("n", "d", to(things, "d"))
	wantKeys(t, "shown", g.show(things, self)) // its owner is there: itself
	g.wantStats(1, 0, 1)
	v, _ := g.View(key(things, "d"))
	if !v.HasDependents || v.Owners[0].Observed != self {
		t.Errorf("the view of a self-owned object is %+v", v)
	}
	wantKeys(t, "waiting", g.show(things, waiting(self)), key(things, "d"))
	wantKeys(t, "ended", g.end(things, self))
	g.wantStats(0, 0, 0)
}

func TestMutualOwners(t *testing.T) {
	g := newGraph(t)
	a, b := object("n", "a", to(things, "b")), object("n", "b", to(things, "a"))
	wantKeys(t, "first", g.show(things, a), key(things, "a"))
	wantKeys(t, "second", g.show(things, b)) // both are settled now
	g.wantStats(2, 0, 2)
	wantKeys(t, "end of one", g.end(things, a), key(things, "b"))
	g.wantStats(1, 1, 1)
}

func TestTwoResourcesShowOneUID(t *testing.T) {
	g := newGraph(t)
	o := object("n", "o")
	g.show(widgets, o)
	g.show(mirrors, o)
	g.show(things, object("n", "w", to(widgets, "o")))
	g.show(things, object("n", "m", to(mirrors, "o")))
	g.wantStats(4, 0, 2)

	// Each reference is judged by the kind that it declares.
	wantKeys(t, "end under one kind", g.end(widgets, o), key(things, "w"), key(things, "m"))
	if v := g.owners(things, "w")[0]; v.Observed != nil || v.Fact.State != Gone {
		t.Errorf("the reference to the ended kind shows %+v", v)
	}
	if v := g.owners(things, "m")[0]; v.Observed != o || v.Fact.State != Unproved {
		t.Errorf("the reference to the other kind shows %+v", v)
	}
	g.wantStats(3, 0, 2)
	g.vanish(mirrors, "o")
	if v := g.owners(things, "m")[0]; v.Observed != o || v.Fact.State != Unproved {
		t.Errorf("the vanished kind shows %+v", v)
	}
	g.end(mirrors, o)
	if v := g.owners(things, "m")[0]; v.Observed != nil || v.Fact.State != Gone {
		t.Errorf("the ended kind shows %+v", v)
	}
	g.wantStats(2, 1, 2)
}

// TestTwinsLeaveInAnyOrder removes three nodes with one UID in every order: they share a linked list.
func TestTwinsLeaveInAnyOrder(t *testing.T) {
	shown := []*Resource{widgets, mirrors, things}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		g := newGraph(t)
		for _, r := range shown {
			g.show(r, object("n", "o", to(clusters, "c")))
		}
		for left, i := range order {
			g.end(shown[i], object("n", "o"))
			if _, ok := g.View(key(shown[i], "o")); ok {
				t.Errorf("order %v: the node of %s is still there", order, shown[i].Name)
			}
			for _, j := range order[left+1:] {
				if _, ok := g.View(key(shown[j], "o")); !ok {
					t.Errorf("order %v: the node of %s has gone too", order, shown[j].Name)
				}
			}
		}
		g.wantStats(0, 0, 0)
	}
}

func TestRemoveResourceLeavesNeitherPresenceNorAbsence(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("n", "o"))
	g.show(widgets, object("n", "p", to(widgets, "o")))
	g.show(mirrors, object("n", "p"))
	g.show(things, object("n", "d", to(widgets, "o"), to(widgets, "p")))
	g.show(things, object("n", "other"))
	// The dependent that belongs to the resource has gone with it and is not returned.
	wantKeys(t, "removed", g.drop(widgets), key(things, "d"))
	g.wantStats(3, 1, 2)
	for _, o := range g.owners(things, "d") {
		if o.Observed != nil || o.Fact != (Fact{}) {
			t.Errorf("the removed resource's object shows %+v", o)
		}
	}
	if n := g.Count(widgets.GroupResource()); n != 0 {
		t.Errorf("%d widgets are counted", n)
	}
	wantKeys(t, "removed again", g.drop(widgets))
}

// A live read found the owner before its kind went. When the kind is served again, the owner need not be there.
func TestRemoveResourceForgetsWhatALiveReadFound(t *testing.T) {
	for name, c := range map[string]struct{ learnt, left Fact }{
		"present": {Fact{State: Present, Seen: epoch}, Fact{}},
		"gone":    {Fact{State: Gone}, Fact{State: Gone}},
		"absent":  {Fact{State: Absent}, Fact{State: Absent}},
	} {
		g := newGraph(t)
		g.show(widgets, object("n", "known"))
		g.show(things, object("n", "d", to(widgets, "unseen")))
		g.learn("unseen", at(widgets, "n", "unseen"), c.learnt)
		var affected []Key
		if c.left != c.learnt {
			affected = []Key{key(things, "d")}
		}
		wantKeys(t, name, g.drop(widgets), affected...)
		if f := g.Known("unseen", at(widgets, "n", "unseen")); f != c.left {
			t.Errorf("%s: %+v is known", name, f)
		}
	}
}

func TestAddResourceTwiceKeepsTheNodes(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "a"))
	g.AddResource(things.GroupResource(), schema.GroupKind{Kind: "Another"}, epoch)
	g.check()
	g.wantStats(1, 0, 0)
	g.show(widgets, object("n", "d", to(things, "a")))
	if g.owners(widgets, "d")[0].Observed == nil {
		t.Error("the second announcement changed the kind of the nodes")
	}
}

func TestViewsDoNotChangeAfterwards(t *testing.T) {
	g := newGraph(t)
	o, d := object("n", "o"), object("n", "d", to(widgets, "o"))
	g.show(widgets, o)
	g.show(things, d)
	before, _ := g.View(key(things, "d"))
	g.show(things, object("n", "d", to(mirrors, "x")))
	g.end(widgets, o)
	if before.Record != d || before.Owners[0].Observed != o || before.Owners[0].Reference != to(widgets, "o") {
		t.Errorf("an earlier view now says %+v", before)
	}
}
