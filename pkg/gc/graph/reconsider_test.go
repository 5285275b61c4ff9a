package graph

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A step returns the objects that the workers will look at. If it returns too few, garbage stays; if too
// many, every update of every object costs a decision.

func TestShownObjectIsReconsideredUnlessSettled(t *testing.T) {
	g := newGraph(t)
	wantKeys(t, "no references", g.show(widgets, object("n", "o")))
	wantKeys(t, "owner observed", g.show(things, object("n", "d", to(widgets, "o"))))
	wantKeys(t, "owner virtual", g.show(things, object("n", "e", to(widgets, "x"))), key(things, "e"))
	wantKeys(t, "one of two virtual", g.show(things, object("n", "f", to(widgets, "o"), to(widgets, "x"))), key(things, "f"))
	wantKeys(t, "kind unknown", g.show(things, object("n", "g", Reference{APIVersion: "v1", Kind: "Nonsense", Name: "o", UID: "o"})), key(things, "g"))
	wrong := to(widgets, "o")
	wrong.Name = "p"
	wantKeys(t, "wrong name", g.show(things, object("n", "h", wrong)), key(things, "h"))
	g.show(widgets, waiting(object("n", "o")))
	wantKeys(t, "owner waiting", g.show(things, object("n", "i", to(widgets, "o"))), key(things, "i"))
}

func TestUpdateIsReconsideredOnlyIfItMatters(t *testing.T) {
	g := newGraph(t)
	d := object("n", "d", to(widgets, "x"))
	g.show(things, d)
	step := func(what string, change func(*Record), want ...Key) {
		t.Helper()
		c := *d
		c.ResourceVersion += "0"
		change(&c)
		d = &c
		wantKeys(t, what, g.show(things, d), want...)
	}
	step("only the version", func(*Record) {})
	step("deleting", func(r *Record) { r.Deleting = true }, key(things, "d"))
	step("foreground", func(r *Record) { r.Foreground = true }, key(things, "d"))
	step("orphan", func(r *Record) { r.Orphan = true }, key(things, "d"))
	step("another reference", func(r *Record) { r.References = []Reference{to(widgets, "y")} }, key(things, "d"))
	step("a flag of the reference", func(r *Record) {
		b := to(widgets, "y")
		b.BlockOwnerDeletion = True
		r.References = []Reference{b}
	}, key(things, "d"))
	// An object that waits for the collector is always looked at, whatever it names.
	step("no reference left", func(r *Record) { r.References = nil }, key(things, "d"))
	step("foreground no more", func(r *Record) { r.Foreground = false }, key(things, "d"))
	step("orphan no more", func(r *Record) { r.Orphan = false })
}

func TestOwnersArrivalWakesUnsettledDependents(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "good", to(widgets, "o")))
	g.show(things, object("n", "two", to(widgets, "o"), to(widgets, "x")))
	wrong := to(widgets, "o")
	wrong.Name = "p"
	g.show(things, object("n", "bad", wrong))
	g.show(things, object("n", "stranger", to(widgets, "x")))
	o := object("n", "o")
	// The arrival settles the good one: nothing is left to decide.
	wantKeys(t, "arrival", g.show(widgets, o), key(things, "two"), key(things, "bad"))
	newer := *o
	newer.ResourceVersion = "2"
	wantKeys(t, "update", g.show(widgets, &newer))
	wantKeys(t, "waits", g.show(widgets, waiting(o)), key(widgets, "o"), key(things, "good"), key(things, "two"), key(things, "bad"))
	wantKeys(t, "still waits", g.show(widgets, waiting(o)))
	// No longer waiting: the good one is settled again.
	wantKeys(t, "waits no more", g.show(widgets, o), key(things, "two"), key(things, "bad"))
	deleting := *o
	deleting.Deleting = true
	wantKeys(t, "deleting without waiting is solid", g.show(widgets, &deleting))
}

func TestOwnersEndWakesAllDependents(t *testing.T) {
	for name, end := range map[string]func(*checked) []Key{
		"deleted":          func(g *checked) []Key { return g.end(widgets, object("n", "o")) },
		"resource removed": func(g *checked) []Key { return g.drop(widgets) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(t)
			g.show(widgets, object("n", "o"))
			g.show(widgets, object("n", "p"))
			g.show(things, object("n", "good", to(widgets, "o")))
			g.show(things, object("n", "two", to(widgets, "o"), to(clusters, "c")))
			wrong := to(widgets, "o")
			wrong.APIVersion = "ex.io/v9"
			g.show(things, object("m", "bad", wrong))
			g.show(things, object("n", "stranger", to(things, "x")))
			g.show(mirrors, object("n", "good", to(widgets, "o"))) // a twin of a dependent is a dependent of its own
			wantKeys(t, name, end(g), key(things, "good"), key(things, "two"), key(things, "bad"), key(mirrors, "good"))
		})
	}
}

func TestCatalogChangeReconsidersUnsettledObjects(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("n", "o"))
	g.show(things, object("n", "settled", to(widgets, "o"), to(widgets, "o")))
	g.show(things, object("n", "dangling", to(widgets, "x")))
	g.show(things, object("n", "free"))
	old := to(widgets, "o")
	old.APIVersion = "ex.io/v1"
	g.show(things, object("n", "old", old))
	wantKeys(t, "the same again", g.serve(universe...), key(things, "dangling"))
	onlyNew := *widgets
	onlyNew.Versions = []string{"v2"}
	wantKeys(t, "a version goes", g.serve(things, &onlyNew), key(things, "dangling"), key(things, "old"))
	wantKeys(t, "the kind goes", g.serve(things), key(things, "dangling"), key(things, "old"), key(things, "settled"))
	if o := g.owners(things, "settled")[0]; o.Observed != nil || o.Resource != nil {
		t.Errorf("a reference to a kind that is not served shows %+v", o)
	}
	wantKeys(t, "the kind comes", g.serve(universe...), key(things, "dangling"))
	if o := g.owners(things, "settled")[0]; o.Observed == nil {
		t.Errorf("the kind is served again and its object is shown: %+v", o)
	}
	scoped := *widgets
	scoped.Namespaced = false
	wantKeys(t, "the scope changes", g.serve(things, &scoped), key(things, "dangling"), key(things, "old"), key(things, "settled"))
}

// TestKindServedAgainWakesWhatWaitsForThat: a kind is not served for a while, and its objects stay. Those
// that need an action were looked at meanwhile, in vain, and the monitor that takes over has nothing new
// to show.
func TestKindServedAgainWakesWhatWaitsForThat(t *testing.T) {
	g := newGraph(t)
	orphaning := object("n", "orphaning")
	orphaning.Deleting, orphaning.Orphan = true, true
	g.show(widgets, orphaning)
	g.show(widgets, waiting(object("n", "waiting")))
	g.show(widgets, object("n", "missing"))
	g.show(things, object("n", "d", to(widgets, "missing")))
	g.vanish(widgets, "missing")
	g.show(widgets, object("n", "free"))
	g.serve(things)
	g.Suspend(widgets.GroupResource(), g.now)
	wantKeys(t, "served again", g.serve(universe...), key(widgets, "orphaning"), key(widgets, "waiting"), key(widgets, "missing"))
}

// TestVanishedObjectIsAllThatIsLookedAt: its owners and its dependents wait for the live read of it.
func TestVanishedObjectIsAllThatIsLookedAt(t *testing.T) {
	start := func(t *testing.T) *checked {
		g := newGraph(t)
		g.show(widgets, object("n", "o"))
		g.show(things, object("n", "d", to(widgets, "o")))
		wantKeys(t, "vanished", g.vanish(widgets, "o"), key(widgets, "o"))
		wantKeys(t, "vanished again", g.vanish(widgets, "o"), key(widgets, "o"))
		if v, ok := g.View(key(widgets, "o")); !ok || !v.Missing {
			t.Fatalf("got %+v", v)
		}
		return g
	}
	sure := func(t *testing.T, g *checked) {
		t.Helper()
		if v, ok := g.View(key(widgets, "o")); !ok || v.Missing {
			t.Errorf("got %+v", v)
		}
	}
	t.Run("it is there", func(t *testing.T) {
		g := start(t)
		wantKeys(t, "confirmed", g.Confirm(key(widgets, "o"), object("n", "o"), g.now))
		g.check()
		sure(t, g)
		wantKeys(t, "confirmed too late", g.Confirm(key(widgets, "o"), waiting(object("n", "o")), g.now))
		if v, _ := g.View(key(widgets, "o")); v.Record.Deleting {
			t.Error("an old read replaces what the monitor shows")
		}
	})
	t.Run("it is there and waits", func(t *testing.T) {
		g := start(t)
		wantKeys(t, "confirmed", g.Confirm(key(widgets, "o"), waiting(object("n", "o")), g.now), key(widgets, "o"), key(things, "d"))
		g.check()
		sure(t, g)
	})
	t.Run("it is shown again", func(t *testing.T) {
		g := start(t)
		wantKeys(t, "shown", g.show(widgets, object("n", "o")))
		sure(t, g)
	})
	t.Run("it is gone", func(t *testing.T) {
		g := start(t)
		wantKeys(t, "gone", g.end(widgets, object("n", "o")), key(things, "d"))
		wantKeys(t, "confirmed too late", g.Confirm(key(widgets, "o"), object("n", "o"), g.now))
		g.wantStats(1, 1, 1)
	})
	t.Run("nobody would ask", func(t *testing.T) {
		g := newGraph(t)
		g.show(widgets, object("n", "free"))
		wantKeys(t, "vanished", g.vanish(widgets, "free"))
		g.wantStats(0, 0, 0)
		g.show(things, object("n", "d", to(widgets, "x")))
		wantKeys(t, "a dependent", g.vanish(things, "d"), key(things, "d"))
		g.wantStats(1, 1, 1)
	})
	t.Run("the collector would have to let it go", func(t *testing.T) {
		orphaning := object("n", "orphaning")
		orphaning.Deleting, orphaning.Orphan = true, true
		for _, o := range []*Record{waiting(object("n", "waiting")), orphaning} {
			g := newGraph(t)
			g.show(widgets, o)
			wantKeys(t, "vanished", g.vanish(widgets, o.UID), key(widgets, o.UID))
			g.wantStats(1, 0, 0)
		}
	})
}

func TestVanishedExceptSparesShownObjects(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "stays", to(widgets, "o")))
	g.show(things, object("n", "goes", to(widgets, "o")))
	g.show(things, object("n", "unsure", to(widgets, "o")))
	g.show(things, object("n", "free"))
	g.show(widgets, object("n", "other", to(widgets, "o")))
	g.vanish(things, "unsure")
	got := g.VanishedExcept(things.GroupResource(), func(uid types.UID) bool { return uid == "stays" })
	g.check()
	wantKeys(t, "taken over", got, key(things, "goes"))
	g.wantStats(4, 1, 4)
	for uid, want := range map[types.UID]bool{"stays": false, "goes": true, "unsure": true} {
		if v, ok := g.View(key(things, uid)); !ok || v.Missing != want {
			t.Errorf("%s: %v %+v", uid, ok, v)
		}
	}
	wantKeys(t, "not announced", New().VanishedExcept(things.GroupResource(), func(types.UID) bool { return false }))
}

// The 2016 proposal's bookkeeping: an owner in foreground deletion is looked at each time a dependent goes
// or its own status changes. Its dependents are not looked at each time.
func TestLookingAtAnOwnerQueuesNoDependent(t *testing.T) {
	g := newGraph(t)
	owner := object("n", "o")
	g.show(widgets, owner)
	blocks := to(widgets, "o")
	blocks.BlockOwnerDeletion = True
	var all []Key
	for _, uid := range []types.UID{"a", "b", "c"} {
		g.show(things, object("n", uid, blocks))
		all = append(all, key(things, uid))
	}
	w := waiting(owner)
	wantKeys(t, "the deletion becomes known", g.show(widgets, w), append(all, key(widgets, "o"))...)
	again := *w
	again.ResourceVersion += "0"
	wantKeys(t, "its status changes", g.show(widgets, &again), key(widgets, "o"))
	wantKeys(t, "a dependent goes", g.end(things, object("n", "a", blocks)))
	wantKeys(t, "another", g.end(things, object("n", "b", blocks)))
	wantKeys(t, "the last", g.end(things, object("n", "c", blocks)), key(widgets, "o"))
}
