package graph

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A second DELETE can put an object that is already being deleted into foreground deletion, and so
// close a ring.
func TestSecondDeletionMayCloseARing(t *testing.T) {
	g := newGraph(t)
	ring := object("n", "o", blocking(to(widgets, "o")))
	ring.Deleting, ring.DeletedAt = true, epoch.Unix()
	g.show(widgets, ring)
	g.TakeWaitingChanged()
	closed := *ring
	closed.Foreground = true
	g.show(widgets, &closed)
	if !g.TakeWaitingChanged() {
		t.Error("the change does not ask for a look for rings")
	}
	if n := len(g.Cycles()); n != 1 {
		t.Errorf("found %d rings, want 1", n)
	}
}

// A finalizer decides how an object will be deleted, before anybody has deleted it.
func TestFinalizerAddedBeforeDeletionIsReconsidered(t *testing.T) {
	for name, mark := range map[string]func(*Record){
		"foreground": func(r *Record) { r.Foreground = true },
		"orphan":     func(r *Record) { r.Orphan = true },
	} {
		g := newGraph(t)
		d := object("n", "d", to(widgets, "x"))
		g.show(things, d)
		marked := *d
		mark(&marked)
		wantKeys(t, name, g.show(things, &marked), key(things, "d"))
	}
}

// No server renames objects. Even if one did, that would not release an owner.
func TestOwnerThatIsBlockedUnderAnotherNameIsNotReleased(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(widgets, "o"))))
	renamed := object("n", "d", blocking(to(widgets, "o")))
	renamed.Name = "e"
	wantKeys(t, "renamed", g.show(things, renamed))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 1 {
		t.Errorf("%d references block it", v.Blocking)
	}
	// A blocking reference includes the owner's name.
	other := waiting(object("n", "o"))
	other.Name = "p"
	wantKeys(t, "the owner renamed", g.show(widgets, other), key(widgets, "o"))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 {
		t.Errorf("%d references block it under another name", v.Blocking)
	}
}

// Searching thousands of references at each update of an object would slow down all events.
func TestManyReferencesAreNotSearchedForChanges(t *testing.T) {
	for n, want := range map[int]bool{searchedReferences: false, searchedReferences + 1: true} {
		g := newGraph(t)
		g.show(widgets, object("n", "o"))
		var refs []Reference
		for range n {
			refs = append(refs, to(widgets, "o"))
		}
		if got := len(g.show(things, object("n", "d", refs...))) > 0; got != want {
			t.Errorf("%d references: decided about %v", n, got)
		}
	}
}

// Facts from an aggregated server no longer hold once its store has started over. Facts from other
// servers still do.
func TestForgetFactsOfOneKind(t *testing.T) {
	for name, fact := range map[string]Fact{
		"gone": {State: Gone}, "absent": {State: Absent}, "present": {State: Present, Seen: epoch}, "waiting": {State: Present, Seen: epoch, Waiting: true},
	} {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "w"), to(clusters, "c")))
		g.show(things, object("n", "other", to(clusters, "c")))
		g.learn("w", at(widgets, "n", "w"), fact)
		g.learn("c", at(clusters, "", "c"), fact)
		wantKeys(t, name, g.ForgetFacts(widgets.GroupKind()), key(things, "d"))
		g.check()
		for uid, want := range map[types.UID]Fact{"w": {}, "c": fact} {
			for _, o := range g.owners(things, "d") {
				if o.Reference.UID == uid && o.Fact != want {
					t.Errorf("%s: what is known of %s is %+v", name, uid, o.Fact)
				}
			}
		}
	}
}
