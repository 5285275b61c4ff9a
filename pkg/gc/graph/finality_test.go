package graph

import "testing"

// TestLateReadDoesNotOverwriteProof: the answer of a live read that was sent before the
// owner's deletion arrives after the DELETED event. Gone and Absent are final, so the
// stale presence must not replace them: it would keep the dependents for RecheckAfter
// with nothing to wake them. If the owner's kind goes too, it would keep them for ever,
// because the owner can no longer be read.
func TestLateReadDoesNotOverwriteProof(t *testing.T) {
	here := at(widgets, "n", "o")
	stale := Fact{State: Present, Seen: epoch}
	t.Run("gone", func(t *testing.T) {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o"))) // unverified: a worker reads the owner and finds it
		g.show(widgets, object("n", "o"))                  // the monitor catches up
		g.end(widgets, object("n", "o"))                   // and shows the deletion
		g.learn("o", here, stale)                          // only now the worker reports what it read
		if f := g.owners(things, "d")[0].Fact; f.State != Gone {
			t.Errorf("the proof is lost: %+v", f)
		}
	})
	t.Run("absent", func(t *testing.T) {
		// Two workers read an owner that has no monitor, one before and one after its
		// deletion.
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.learn("o", here, Fact{State: Absent})
		g.learn("o", here, stale)
		if f := g.owners(things, "d")[0].Fact; f.State != Absent {
			t.Errorf("the proof is lost: %+v", f)
		}
	})
	t.Run("absent over gone", func(t *testing.T) {
		// Only Gone outlives the kind (TestGoneStaysWhenTheKindIsNoLongerServed). If a
		// late Absent replaced it and the kind went afterwards, the dependents would stay
		// for ever.
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

// TestDeletionIsNoProofWhileAnotherResourceShowsTheObject: two resources of a group
// may serve one kind. The deletion of an object in one is no proof while the other still
// shows it at the same coordinates. Otherwise the dependents would be deleted without a
// live read if the object then merely vanished from the other's list.
func TestDeletionIsNoProofWhileAnotherResourceShowsTheObject(t *testing.T) {
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
