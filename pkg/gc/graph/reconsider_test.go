package graph

import "testing"

// What a step returns is what the workers will look at: too little and garbage
// stays, too much and every update of every object costs a decision.

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
	step("no reference left", func(r *Record) { r.References = nil })
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
	// The good one is settled by it: nothing is left to decide.
	wantKeys(t, "arrival", g.show(widgets, o), key(things, "two"), key(things, "bad"))
	newer := *o
	newer.ResourceVersion = "2"
	wantKeys(t, "update", g.show(widgets, &newer))
	wantKeys(t, "waits", g.show(widgets, waiting(o)), key(things, "good"), key(things, "two"), key(things, "bad"))
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
		"vanished":         func(g *checked) []Key { return g.vanish(widgets, "o") },
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

func TestCatalogWakesWhatIsNotSettledUnderIt(t *testing.T) {
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
