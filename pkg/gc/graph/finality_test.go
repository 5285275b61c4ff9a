package graph

import "testing"

// TestLateReadDoesNotOverwriteProof: the answer of a live read that was sent
// before the owner ended arrives after the DELETED event. Gone and Absent are
// final, so the stale presence must not replace them: it would keep the dependents
// for RecheckAfter with nothing to wake them; and for ever if the owner's kind goes
// too, because then nobody can be asked again.
func TestLateReadDoesNotOverwriteProof(t *testing.T) {
	here := at(widgets, "n", "o")
	stale := Fact{State: Present, Seen: epoch}
	t.Run("gone", func(t *testing.T) {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o"))) // unverified: a worker asks, and is told that it is there
		g.show(widgets, object("n", "o"))                  // the monitor catches up
		g.end(widgets, object("n", "o"))                   // and shows the end
		g.learn("o", here, stale)                          // only now the worker tells what it was told
		if f := g.owners(things, "d")[0].Fact; f.State != Gone {
			t.Errorf("the proof is lost: %+v", f)
		}
	})
	t.Run("absent", func(t *testing.T) {
		// Two workers ask, one before and one after the end of an owner without a monitor.
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.learn("o", here, Fact{State: Absent})
		g.learn("o", here, stale)
		if f := g.owners(things, "d")[0].Fact; f.State != Absent {
			t.Errorf("the proof is lost: %+v", f)
		}
	})
	t.Run("absent over gone", func(t *testing.T) {
		// Only Gone outlives the kind (TestGoneStaysWhenTheKindIsNoLongerServed): with a
		// late Absent in its place, and then the kind gone, the dependents stay for ever.
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.end(widgets, object("n", "o"))
		g.learn("o", here, Fact{State: Absent})
		if f := g.owners(things, "d")[0].Fact; f.State != Gone {
			t.Errorf("the stronger proof is lost: %+v", f)
		}
	})
	t.Run("older presence over newer", func(t *testing.T) {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		newer := Fact{State: Present, Seen: epoch.Add(1)}
		g.learn("o", here, newer)
		g.learn("o", here, stale)
		if f := g.owners(things, "d")[0].Fact; f != newer {
			t.Errorf("got %+v", f)
		}
	})
}

// TestEndInOneResourceProvesNothingWhileATwinOfTheKindShowsIt: two resources of a group
// may serve one kind. The end of an object in one is no proof while the other still
// shows it at the same place. Else the dependents would be deleted without a live
// read when the other then merely vanishes from a list.
func TestEndInOneResourceProvesNothingWhileATwinOfTheKindShowsIt(t *testing.T) {
	gadgets := *widgets
	gadgets.Name = "gadgets"
	g := newGraph(t)
	g.SetCatalog(NewCatalog(append([]*Resource{&gadgets}, universe...)), epoch)
	g.AddResource(gadgets.GroupResource(), gadgets.GroupKind(), epoch)
	g.show(things, object("n", "d", to(widgets, "o")))
	g.show(widgets, object("n", "o"))
	g.show(&gadgets, object("n", "o"))
	g.Deleted(gadgets.GroupResource(), object("n", "o"), epoch)
	if err := g.Check(); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	g.Vanished(widgets.GroupResource(), "o")
	if o := g.owners(things, "d")[0]; o.Fact.Proved() {
		t.Errorf("absence from a list became a proof: %+v", o)
	}
}
