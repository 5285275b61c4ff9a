package graph

import (
	"testing"
	"time"
)

// blocking returns the reference with blockOwnerDeletion.
func blocking(r Reference) Reference { r.BlockOwnerDeletion = True; return r }

// TestWhatBlocksAnOwner has one owner in foreground deletion and one dependent,
// which names it in each way.
func TestWhatBlocksAnOwner(t *testing.T) {
	right := blocking(to(widgets, "o"))
	with := func(change func(*Reference)) Reference { r := right; change(&r); return r }
	for _, c := range []struct {
		name      string
		namespace string
		ref       Reference
		want      bool
	}{
		{"right", "n", right, true},
		{"served, not preferred", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v1" }), true},
		{"unset", "n", with(func(r *Reference) { r.BlockOwnerDeletion = Unset }), false},
		{"false", "n", with(func(r *Reference) { r.BlockOwnerDeletion = False }), false},
		{"another name", "n", with(func(r *Reference) { r.Name = "p" }), false},
		{"another UID", "n", with(func(r *Reference) { r.UID = "p" }), false},
		{"another namespace", "m", right, false},
		{"cluster-scoped dependent", "", right, false},
		{"another kind that is served", "n", with(func(r *Reference) { r.APIVersion, r.Kind = "v1", "Thing" }), false},
		// Nobody can say that these are wrong.
		{"version not served", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v9" }), true},
		{"kind unknown", "n", with(func(r *Reference) { r.Kind = "Nonsense" }), true},
		{"kind unknown, from another namespace", "m", with(func(r *Reference) { r.Kind = "Nonsense" }), true},
	} {
		g := newGraph(t)
		d := object(c.namespace, "d", to(things, "x"), c.ref)
		g.show(things, d)
		g.show(widgets, waiting(object("n", "o")))
		v, _ := g.View(key(widgets, "o"))
		if (v.Blocker != nil) != c.want {
			t.Errorf("%s: %+v", c.name, v.Blocker)
		}
		if v.Blocker != nil && (v.Blocker.Key != key(things, "d") || v.Blocker.Record != d) {
			t.Errorf("%s: %+v", c.name, v.Blocker)
		}
		g.show(widgets, object("n", "o"))
		if v, _ := g.View(key(widgets, "o")); v.Blocker != nil {
			t.Errorf("%s: an object that waits for nothing is blocked: %+v", c.name, v.Blocker)
		}
	}
}

func TestClusterScopedOwnerIsBlockedFromEverywhere(t *testing.T) {
	for _, namespace := range []string{"", "n"} {
		g := newGraph(t)
		g.show(clusters, waiting(object("", "c")))
		g.show(things, object(namespace, "d", blocking(to(clusters, "c"))))
		if v, _ := g.View(key(clusters, "c")); v.Blocker == nil {
			t.Errorf("from namespace %q: nothing blocks it", namespace)
		}
	}
}

// TestVanishedDependentStillBlocks: it may be there.
func TestVanishedDependentStillBlocks(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(widgets, "o"))))
	g.vanish(things, "d")
	if v, _ := g.View(key(widgets, "o")); v.Blocker == nil {
		t.Error("nothing blocks it")
	}
	wantKeys(t, "a live read says that it is gone", g.end(things, object("n", "d")), key(widgets, "o"))
	if v, _ := g.View(key(widgets, "o")); v.Blocker != nil {
		t.Errorf("%+v blocks it", v.Blocker)
	}
}

// TestOwnerIsLookedAtWhenItIsBlockedNoMore: the last dependent's end is nearly
// always all that wakes it.
func TestOwnerIsLookedAtWhenItIsBlockedNoMore(t *testing.T) {
	ref := blocking(to(widgets, "o"))
	start := func(t *testing.T) *checked {
		g := newGraph(t)
		g.show(widgets, waiting(object("n", "o")))
		g.show(things, object("n", "d", ref))
		return g
	}
	owner := key(widgets, "o")
	t.Run("deleted", func(t *testing.T) {
		wantKeys(t, "end", start(t).end(things, object("n", "d")), owner)
	})
	t.Run("dropped", func(t *testing.T) {
		wantKeys(t, "update", start(t).show(things, object("n", "d")), owner)
	})
	t.Run("unblocked", func(t *testing.T) {
		wantKeys(t, "update", start(t).show(things, object("n", "d", to(widgets, "o"))), owner, key(things, "d"))
	})
	t.Run("resource removed", func(t *testing.T) {
		wantKeys(t, "removal", start(t).drop(things), owner)
	})
	t.Run("another judgement", func(t *testing.T) {
		wantKeys(t, "catalog", start(t).serve(things), owner, key(things, "d"))
	})
	t.Run("not blocked by it", func(t *testing.T) {
		g := start(t)
		g.show(things, object("n", "e", to(widgets, "o")))
		wantKeys(t, "end", g.end(things, object("n", "e")))
	})
	t.Run("not waiting", func(t *testing.T) {
		g := start(t)
		g.show(widgets, object("n", "o"))
		wantKeys(t, "end", g.end(things, object("n", "d")))
	})
}

func TestWaitingSince(t *testing.T) {
	g := newGraph(t)
	k := key(widgets, "o")
	want := func(what string, now, since time.Time) {
		t.Helper()
		if got := g.WaitingSince(k, now); got != since {
			t.Errorf("%s: %v", what, got)
		}
	}
	later := epoch.Add(time.Hour)
	want("not there", epoch, time.Time{})
	g.show(widgets, object("n", "o"))
	want("not waiting", epoch, time.Time{})
	g.show(widgets, waiting(object("n", "o")))
	want("first asked", epoch, epoch)
	want("asked again", later, epoch)
	newer := waiting(object("n", "o"))
	newer.ResourceVersion = "2"
	g.show(widgets, newer)
	want("still waiting", later, epoch)
	g.show(widgets, object("n", "o"))
	want("called off", later, time.Time{})
	g.show(widgets, waiting(object("n", "o")))
	want("waiting anew", later, later)
	g.end(widgets, object("n", "o"))
	want("gone", later, time.Time{})
	if got := New().WaitingSince(k, epoch); !got.IsZero() {
		t.Errorf("not announced: %v", got)
	}
}

func TestDependents(t *testing.T) {
	g := newGraph(t)
	wrong := to(widgets, "o")
	wrong.Name = "misspelt"
	g.show(things, object("n", "d", to(widgets, "o"), wrong))
	g.show(mirrors, object("m", "e", wrong))
	g.show(things, object("n", "other", to(widgets, "p")))
	var keys []Key
	for _, d := range g.Dependents("o") {
		keys = append(keys, d.Key)
		if v, ok := g.View(d.Key); !ok || v.Record != d.Record {
			t.Errorf("%+v", d)
		}
	}
	wantKeys(t, "dependents", keys, key(things, "d"), key(mirrors, "e"))
	if len(keys) != 2 || g.Dependents("nobody") != nil {
		t.Errorf("%v", keys)
	}
}

func TestOwnerInAnotherNamespaceIsElsewhere(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("m", "o"))
	g.show(clusters, object("", "c"))
	misspelt := to(widgets, "o")
	misspelt.Name = "x"
	for _, c := range []struct {
		namespace string
		ref       Reference
		want      bool
	}{
		{"n", to(widgets, "o"), true}, {"", to(widgets, "o"), true}, {"m", to(widgets, "o"), false},
		{"n", misspelt, false}, {"n", to(mirrors, "o"), false}, {"n", to(clusters, "c"), false}, {"n", to(widgets, "x"), false},
	} {
		if v := g.probe(c.namespace, c.ref); v.Elsewhere != c.want {
			t.Errorf("from %q: %+v", c.namespace, v)
		}
	}
}

// TestTwinsKindBlocksToo: an owner that two resources show is one object, whichever
// of its kinds a dependent names.
func TestTwinsKindBlocksToo(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(mirrors, "o"))))
	if v, _ := g.View(key(widgets, "o")); v.Blocker != nil {
		t.Errorf("another kind's name blocks it: %+v", v.Blocker)
	}
	g.show(mirrors, waiting(object("n", "o")))
	for _, r := range []*Resource{widgets, mirrors} {
		if v, _ := g.View(key(r, "o")); v.Blocker == nil {
			t.Errorf("nothing blocks it under %s", r.Name)
		}
	}
	wantKeys(t, "the dependent's end", g.end(things, object("n", "d")), key(widgets, "o"), key(mirrors, "o"))
}

// An owner that somebody else's finalizer holds
// is let go by the collector, and deleted in the foreground once more. A re-list
// shows only the second wait, which looks like the first in all but the version.
func TestCoalescedWaitIsLookedAt(t *testing.T) {
	g := newGraph(t)
	o := waiting(object("n", "o"))
	g.show(widgets, o)
	again := *o
	again.ResourceVersion = "3"
	wantKeys(t, "waits again", g.show(widgets, &again), key(widgets, "o"))
}

// TestProgress has a root wait for a child, which a grandchild names. Every end below the
// root counts, by the ways up that there were when it came.
func TestProgress(t *testing.T) {
	child := object("n", "child", blocking(to(widgets, "root")))
	grandchild := object("n", "grandchild", blocking(to(things, "child")))
	for name, c := range map[string]struct {
		step func(*checked)
		want bool
	}{
		"nothing":                   {func(*checked) {}, false},
		"the child's end":           {func(g *checked) { g.end(things, child) }, true},
		"the child's deletion":      {func(g *checked) { g.show(things, waiting(child)) }, true},
		"the grandchild's end":      {func(g *checked) { g.end(mirrors, grandchild) }, true},
		"the grandchild's deletion": {func(g *checked) { g.show(mirrors, waiting(grandchild)) }, true},
		"both ends":                 {func(g *checked) { g.end(mirrors, grandchild); g.end(things, child) }, true},
		"the child is freed":        {func(g *checked) { g.show(things, object("n", "child")) }, false},
		"the grandchild's end, and then the child is freed": {func(g *checked) {
			g.end(mirrors, grandchild)
			g.show(things, object("n", "child"))
		}, true},
		"the child is freed, and then the grandchild's end": {func(g *checked) {
			g.show(things, object("n", "child"))
			g.end(mirrors, grandchild)
		}, false},
		"the grandchild's end, and then the child's resource is no longer served": {func(g *checked) {
			g.end(mirrors, grandchild)
			g.drop(things)
		}, true},
		"a stranger's end": {func(g *checked) { g.end(things, object("n", "stranger", to(widgets, "other"))) }, false},
	} {
		g := newGraph(t)
		g.show(widgets, waiting(object("n", "root")))
		g.show(widgets, object("n", "other"))
		g.show(things, child)
		g.show(mirrors, grandchild)
		g.show(things, object("n", "stranger", to(widgets, "other")))
		before, _ := g.Wait(key(widgets, "root"))
		c.step(g)
		after, ok := g.Wait(key(widgets, "root"))
		if !ok || (after.Progress != before.Progress) != c.want {
			t.Errorf("%s: progress %v before, %v after", name, before.Progress, after.Progress)
		}
		if again, _ := g.Wait(key(widgets, "root")); again != after {
			t.Errorf("%s: asked again it says %+v, and %+v before", name, again, after)
		}
	}
}
