package graph

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// many returns an object with n references.
func many(n int) *Record {
	rec := object("n", "many")
	for i := range n {
		rec.References = append(rec.References, blocking(to(things, types.UID(fmt.Sprint("owner", i)))))
	}
	return rec
}

// TestEventCostsOnlyWhatItChanges: an update of an object with 8,000 references allocates
// nothing if it changes none of them. If it changes one, it allocates for that one.
func TestEventCostsOnlyWhatItChanges(t *testing.T) {
	g := newGraph(t)
	rec := many(size.Of(1000, 8000, 8000))
	g.show(things, rec)
	same := *rec
	same.References = append([]Reference(nil), rec.References...) // equal, as another event brings it
	same.ResourceVersion = "2"
	turn := false
	if n := testing.AllocsPerRun(100, func() {
		next := rec
		if turn = !turn; turn {
			next = &same
		}
		g.Upsert(things.GroupResource(), next, epoch)
	}); n != 0 {
		t.Errorf("an update that changes no reference takes %v allocations", n)
	}
	other := same
	other.References = append([]Reference(nil), rec.References...)
	other.References[len(other.References)/2] = to(things, "another")
	if n := testing.AllocsPerRun(100, func() {
		next := rec
		if turn = !turn; turn {
			next = &other
		}
		g.Upsert(things.GroupResource(), next, epoch)
	}); n > 10 {
		t.Errorf("an update that changes one reference takes %v allocations", n)
	}
	g.check()
}

// TestReferencesFromOtherNamespacesDoNotBlock: a thousand objects in another namespace name an owner,
// by an unknown kind and by its own. Their references neither count nor block it.
func TestReferencesFromOtherNamespacesDoNotBlock(t *testing.T) {
	g := newGraph(t)
	unknown := blocking(to(widgets, "o"))
	unknown.Kind = "Nonsense"
	for i := range 1000 {
		uid := types.UID(fmt.Sprint("d", i))
		g.Upsert(things.GroupResource(), object("m", uid, unknown, blocking(to(widgets, "o"))), epoch)
	}
	g.show(widgets, waiting(object("n", "o")))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 {
		t.Errorf("%d references block it", v.Blocking)
	}
	g.show(things, object("n", "own", blocking(to(widgets, "o"))))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 1 {
		t.Errorf("%d references block it with one of its own", v.Blocking)
	}
}
