package graph

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestSyncedSince: a foreground deletion may end shortly after everything that can be read has been listed.
func TestSyncedSince(t *testing.T) {
	g := New()
	now := epoch
	want := func(what string, since time.Time) {
		t.Helper()
		if got, ok := g.Synced(); !got.Equal(since) || ok != !since.IsZero() {
			t.Errorf("%s: synced since %v, %v", what, got, ok)
		}
		now = now.Add(time.Minute)
	}
	never := time.Time{}
	tg, wg := things.GroupResource(), widgets.GroupResource()
	want("nothing is known", never)
	g.AddResource(tg, things.GroupKind(), now)
	g.Listed(tg, now)
	want("nobody knows what is served", never)
	g.SetCatalog(NewCatalog([]*Resource{things, widgets}), now)
	want("widgets have no monitor yet", never)
	g.AddResource(wg, widgets.GroupKind(), now)
	want("widgets are not listed", never)
	first := now
	g.SetReadable(wg, false, now)
	want("widgets cannot be read", first)
	g.Listed(tg, now)
	want("that is so since", first)
	g.SetReadable(wg, true, now)
	want("widgets can be read again", never)
	second := now
	g.Listed(wg, now)
	want("all is listed", second)
	g.SetCatalog(NewCatalog([]*Resource{things}), now)
	g.Suspend(wg, now)
	want("nobody serves widgets", second)
	g.AddResource(wg, widgets.GroupKind(), now)
	want("widgets are back", never)
	third := now
	g.Suspend(wg, now)
	want("and gone before they were listed", third)
}

func TestSuspendedHasObjects(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("n", "o"))
	for _, r := range []*Resource{things, widgets} {
		g.Suspend(r.GroupResource(), epoch)
	}
	if got := g.Suspended(); len(got) != 1 || got[widgets.GroupResource()] != 1 {
		t.Errorf("suspended with objects are %v", got)
	}
}

// A kind that is served or removed changes which references block, and so which objects form a ring.
func TestCatalogChangesWhatBlocks(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	other := blocking(to(clusters, "o")) // the right UID and another kind
	g.show(things, object("n", "d", other))
	blocks := func(what string, want int) {
		t.Helper()
		if v, _ := g.View(key(widgets, "o")); v.Blocking != want {
			t.Errorf("%s: %d references block it, want %d", what, v.Blocking, want)
		}
	}
	blocks("another kind of the same group", 0)
	g.TakeWaitingChanged()
	g.serve(things, widgets)
	blocks("a kind that nobody serves", 1)
	if !g.TakeWaitingChanged() || g.TakeWaitingChanged() {
		t.Error("rings are not looked for, or again and again")
	}
	g.serve(universe...)
	blocks("another kind again", 0)
}

// A ring counts only while the kinds that it names are served. Here the blocking references stay the same.
func TestKindThatIsServedMayCloseARing(t *testing.T) {
	g := newGraph(t)
	ref := blocking(to(widgets, "o"))
	ref.APIVersion = apiVersion(widgets, "v3")
	g.show(widgets, waiting(object("n", "o", ref)))
	g.TakeWaitingChanged()
	if n := len(g.Cycles()); n != 0 {
		t.Fatalf("%d rings of a version that nobody serves", n)
	}
	newer := *widgets
	newer.Versions = []string{"v3", "v2", "v1"}
	g.serve(things, &newer, clusters, mirrors)
	if n := len(g.Cycles()); n != 1 || !g.TakeWaitingChanged() {
		t.Errorf("%d rings, and nobody looks for them", n)
	}
}

// Two resources show one object, each under its own kind. A dependent that names either kind blocks
// the owner, as long as both show it.
func TestObjectBlocksOnlyThroughResourcesThatShowIt(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(mirrors, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(mirrors, "o"))))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 1 {
		t.Fatalf("%d references block it", v.Blocking)
	}
	wantKeys(t, "the twin's end", g.end(mirrors, object("n", "o")), key(widgets, "o"), key(things, "d"))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 {
		t.Errorf("%d references block it", v.Blocking)
	}
}

func TestBlockersAreNamed(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "free", to(widgets, "o")))
	for i, uid := range []types.UID{"a", "b", "c"} {
		g.show(things, object("n", uid, blocking(to(widgets, "o"))))
		if got := len(g.Blockers(key(widgets, "o"), 2)); got != min(i+1, 2) {
			t.Errorf("%d of %d are named", got, i+1)
		}
	}
	for _, b := range g.Blockers(key(widgets, "o"), 10) {
		if b.Record.Name == "free" {
			t.Error("one that does not block is named")
		}
	}
}

// Only references within a ring are cut, none that leads out of it.
func TestRingNamesItsOwnReferences(t *testing.T) {
	g := newGraph(t)
	in, out := blocking(to(widgets, "a")), blocking(to(widgets, "out"))
	g.show(widgets, waiting(object("n", "out")))
	g.show(widgets, waiting(object("n", "a", in, out)))
	rings := g.Cycles()
	if len(rings) != 1 || len(rings[0]) != 1 || len(rings[0][0].Blocking) != 1 || rings[0][0].Blocking[0] != in {
		t.Errorf("the rings are %+v, want the one object with itself", rings)
	}
}

// An event refutes what a read has shown only where the two differ.
func TestEventThatShowsAWaitDoesNotRefuteIt(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("n", "o"))
	g.show(things, object("n", "d", to(widgets, "o")))
	waits := Fact{State: Present, Seen: epoch, Waiting: true, Version: "2"}
	g.learn("o", at(widgets, "n", "o"), waits)
	g.show(widgets, waiting(object("n", "o")))
	if f := g.owners(things, "d")[0].Fact; f != waits {
		t.Errorf("what was read is forgotten: %+v", f)
	}
	g.show(widgets, object("n", "o"))
	if f := g.owners(things, "d")[0].Fact; f != (Fact{}) {
		t.Errorf("what was read counts still: %+v", f)
	}
}

// An owner with many dependents keeps those that name it more than once until their last reference goes.
func TestManyDependentsWithTwoReferencesEach(t *testing.T) {
	const n = 2 * fewNodes
	g := newGraph(t)
	second := to(widgets, "o")
	second.Controller = True
	for i := range n {
		g.show(things, object("n", types.UID(rune('A'+i)), to(widgets, "o"), second))
	}
	g.show(things, object("n", "A", second))
	if got := len(g.Dependents("o")); got != n {
		t.Errorf("%d dependents of %d", got, n)
	}
	g.show(things, object("n", "A"))
	if got := len(g.Dependents("o")); got != n-1 {
		t.Errorf("%d dependents of %d", got, n-1)
	}
}
