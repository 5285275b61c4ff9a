package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// blocking returns the reference with blockOwnerDeletion.
func blocking(r Reference) Reference { r.BlockOwnerDeletion = True; return r }

// TestWhatBlocksAnOwner has one owner in foreground deletion and one dependent, and
// tries each form of reference.
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
		// These cannot be proved wrong.
		{"version not served", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v9" }), true},
		{"kind unknown", "n", with(func(r *Reference) { r.Kind = "Nonsense" }), true},
		// A namespaced owner has no dependents elsewhere, whatever their kind may be.
		{"kind unknown, from another namespace", "m", with(func(r *Reference) { r.Kind = "Nonsense" }), false},
		{"version not served, from another namespace", "m", with(func(r *Reference) { r.APIVersion = "ex.io/v9" }), false},
	} {
		g := newGraph(t)
		d := object(c.namespace, "d", to(things, "x"), c.ref)
		g.show(things, d)
		g.show(widgets, waiting(object("n", "o")))
		v, _ := g.View(key(widgets, "o"))
		if (v.Blocking == 1) != c.want {
			t.Errorf("%s: %+v", c.name, v.Blocking)
		}
		blockers := g.Blockers(key(widgets, "o"), 5)
		if (len(blockers) == 1) != c.want || c.want && (blockers[0].Key != key(things, "d") || blockers[0].Record != d) {
			t.Errorf("%s: %+v", c.name, blockers)
		}
		g.show(widgets, object("n", "o"))
		if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 || g.Blockers(key(widgets, "o"), 5) != nil {
			t.Errorf("%s: an object that waits for nothing is blocked", c.name)
		}
	}
}

func TestClusterScopedOwnerIsBlockedFromEverywhere(t *testing.T) {
	for _, namespace := range []string{"", "n"} {
		g := newGraph(t)
		g.show(clusters, waiting(object("", "c")))
		g.show(things, object(namespace, "d", blocking(to(clusters, "c"))))
		if v, _ := g.View(key(clusters, "c")); v.Blocking == 0 {
			t.Errorf("from namespace %q: nothing blocks it", namespace)
		}
	}
}

// TestVanishedDependentStillBlocks: the dependent may still exist.
func TestVanishedDependentStillBlocks(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(widgets, "o"))))
	g.vanish(things, "d")
	if v, _ := g.View(key(widgets, "o")); v.Blocking == 0 {
		t.Error("a vanished dependent no longer blocks its owner")
	}
	wantKeys(t, "a live read says that it is gone", g.end(things, object("n", "d")), key(widgets, "o"))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 {
		t.Errorf("%+v blocks it", v.Blocking)
	}
}

// TestOwnerIsLookedAtWhenItIsBlockedNoMore: usually only the last dependent's deletion
// wakes it.
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
	t.Run("one of two deleted", func(t *testing.T) {
		g := start(t)
		g.show(things, object("n", "e", ref))
		wantKeys(t, "the first", g.end(things, object("n", "d")))
		wantKeys(t, "the last", g.end(things, object("n", "e")), owner)
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

// TestWaitBeginsWithTheEventThatShowsIt: no query begins a wait.
func TestWaitBeginsWithTheEventThatShowsIt(t *testing.T) {
	g := newGraph(t)
	k := key(widgets, "o")
	want := func(what string, since time.Time) {
		t.Helper()
		if v, _ := g.View(k); v.Wait.Since != since {
			t.Errorf("%s: %v", what, v.Wait.Since)
		}
	}
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	want("not there", time.Time{})
	g.show(widgets, object("n", "o"))
	want("not waiting", time.Time{})
	g.now = at(1)
	g.show(widgets, waiting(object("n", "o")))
	g.now = at(2)
	want("waiting", at(1))
	newer := waiting(object("n", "o"))
	newer.ResourceVersion = "2"
	g.show(widgets, newer)
	want("still waiting", at(1))
	g.show(widgets, object("n", "o"))
	want("called off", time.Time{})
	g.now = at(3)
	g.show(widgets, waiting(object("n", "o")))
	want("waiting anew", at(3))
	g.end(widgets, object("n", "o"))
	want("gone", time.Time{})
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

func TestOwnerInAnotherNamespaceDoesNotCount(t *testing.T) {
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

// TestTwinsKindBlocksToo: an owner that two resources show is one object. A dependent
// may name either of its kinds.
func TestTwinsKindBlocksToo(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	g.show(things, object("n", "d", blocking(to(mirrors, "o"))))
	if v, _ := g.View(key(widgets, "o")); v.Blocking != 0 {
		t.Errorf("another kind's name blocks it: %+v", v.Blocking)
	}
	g.show(mirrors, waiting(object("n", "o")))
	for _, r := range []*Resource{widgets, mirrors} {
		if v, _ := g.View(key(r, "o")); v.Blocking == 0 {
			t.Errorf("nothing blocks it under %s", r.Name)
		}
	}
	wantKeys(t, "the dependent's end", g.end(things, object("n", "d")), key(widgets, "o"), key(mirrors, "o"))
}

// The collector releases an owner that another finalizer holds, and the owner is
// deleted in the foreground once more. A re-list shows only the second wait, which
// differs from the first only in the resourceVersion.
func TestSecondWaitInOneEventIsReconsidered(t *testing.T) {
	g := newGraph(t)
	o := waiting(object("n", "o"))
	g.show(widgets, o)
	again := *o
	again.ResourceVersion = "3"
	wantKeys(t, "waits again", g.show(widgets, &again), key(widgets, "o"))
}

// TestProgress has a root that waits for a child, and a grandchild that names the
// child. Every deletion below the root counts from the time of its event, along the
// references that existed then.
func TestProgress(t *testing.T) {
	child := object("n", "child", blocking(to(widgets, "root")))
	grandchild := object("n", "grandchild", blocking(to(things, "child")))
	later := epoch.Add(time.Minute)
	deleted := func(r *Record) *Record {
		d := *r
		d.Deleting, d.DeletedAt = true, later.Unix()
		return &d
	}
	for name, c := range map[string]struct {
		step         func(*checked)
		here, deeper bool // here: the wait counts it; deeper: only a survey finds it
	}{
		"nothing":                   {func(*checked) {}, false, false},
		"the child's end":           {func(g *checked) { g.end(things, child) }, true, false},
		"the child's deletion":      {func(g *checked) { g.show(things, deleted(child)) }, true, false},
		"the grandchild's end":      {func(g *checked) { g.end(mirrors, grandchild) }, false, true},
		"the grandchild's deletion": {func(g *checked) { g.show(mirrors, deleted(grandchild)) }, false, true},
		"both ends":                 {func(g *checked) { g.end(mirrors, grandchild); g.end(things, child) }, true, false},
		"the child is freed":        {func(g *checked) { g.show(things, object("n", "child")) }, false, false},
		"the grandchild's end, and then the child is freed": {func(g *checked) {
			g.end(mirrors, grandchild)
			g.show(things, object("n", "child"))
		}, true, false},
		"the child is freed, and then the grandchild's end": {func(g *checked) {
			g.show(things, object("n", "child"))
			g.end(mirrors, grandchild)
		}, false, false},
		"the grandchild's end, and then the child's resource is no longer served": {func(g *checked) {
			g.end(mirrors, grandchild)
			g.drop(things)
		}, true, false},
		"a stranger's end": {func(g *checked) { g.end(things, object("n", "stranger", to(widgets, "other"))) }, false, false},
	} {
		g := newGraph(t)
		g.show(widgets, waiting(object("n", "root")))
		g.show(widgets, object("n", "other"))
		g.show(things, child)
		g.show(mirrors, grandchild)
		g.show(things, object("n", "stranger", to(widgets, "other")))
		g.now = later
		c.step(g)
		v, _ := g.View(key(widgets, "root"))
		s, _ := g.Survey(key(widgets, "root"))
		want := map[bool]time.Time{false: epoch, true: later}
		if !v.Wait.Progress.Equal(want[c.here]) {
			t.Errorf("%s: progress at %v", name, v.Wait.Progress)
		}
		if (s.Progress.Equal(later)) != (c.here || c.deeper) {
			t.Errorf("%s: a survey finds progress at %v", name, s.Progress)
		}
	}
}

// TestInitialListIsNoProgress: a deletion counts from its own timestamp, however late
// and in whatever order it is shown.
func TestInitialListIsNoProgress(t *testing.T) {
	deleted := *object("n", "d", blocking(to(widgets, "o")))
	deleted.Deleting, deleted.DeletedAt = true, epoch.Add(time.Minute).Unix()
	old := waiting(object("n", "o"))
	for name, list := range map[string]func(*checked){
		"owner first":     func(g *checked) { g.show(widgets, old); g.show(things, &deleted) },
		"dependent first": func(g *checked) { g.show(things, &deleted); g.show(widgets, old) },
	} {
		g := newGraph(t)
		g.now = epoch.Add(time.Hour)
		list(g)
		v, _ := g.View(key(widgets, "o"))
		if !v.Wait.Progress.Equal(epoch.Add(time.Minute)) || !v.Wait.Since.Equal(g.now) {
			t.Errorf("%s: %+v", name, v.Wait)
		}
	}
}

// TestFutureTimestampCountsAsNow, since clocks differ.
func TestFutureTimestampCountsAsNow(t *testing.T) {
	g := newGraph(t)
	o := waiting(object("n", "o"))
	o.DeletedAt = epoch.Add(time.Hour).Unix()
	g.show(widgets, o)
	if v, _ := g.View(key(widgets, "o")); !v.Wait.Progress.Equal(epoch) {
		t.Errorf("%+v", v.Wait)
	}
}

// TestQueriesChangeNothing makes every query of a graph that has waits and progress,
// and checks that the graph is unchanged.
func TestQueriesChangeNothing(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "root")))
	g.show(things, object("n", "child", blocking(to(widgets, "root"))))
	g.show(mirrors, object("n", "grandchild", blocking(to(things, "child"))))
	g.show(things, waiting(object("n", "self", blocking(to(things, "self")))))
	g.end(mirrors, object("n", "grandchild"))
	root := key(widgets, "root")
	before, after := g.dump(), ""
	for range 2 {
		g.View(root)
		g.ViewOf(root.Resource, waiting(object("n", "root")))
		g.Blockers(root, 5)
		g.Survey(root)
		g.Dependents("root")
		for range g.InNamespace("n") {
		}
		g.IsOwner("root")
		g.Collecting()
		g.Cycles()
		g.Around()
		g.Synced()
		g.Suspended()
		g.Stats()
		g.Shape(root)
		g.Count(root.Resource)
		g.Versions(root.Resource)
		g.Catalog()
		if after = g.dump(); after != before {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
	}
}

// dump writes down all that the graph holds.
func (g *checked) dump() string {
	var lines []string
	for _, first := range g.nodes {
		for n := first; n != nil; n = n.twin {
			lines = append(lines, fmt.Sprintf("%v %p blocking=%d missing=%v wait=%v loss=%v", n.key(), n.rec, n.blocking, n.missing, g.collecting[n], g.losses[n]))
		}
	}
	for uid, o := range g.Graph.owners {
		lines = append(lines, fmt.Sprintf("%s: %d dependents, facts %v", uid, o.dependents.len(), o.facts))
	}
	for gr, t := range g.tables {
		lines = append(lines, fmt.Sprintf("%v %+v", gr, *t))
	}
	slices.Sort(lines)
	return fmt.Sprint(strings.Join(lines, "\n"), g.edges, g.waitingChanged, g.syncedSince, g.discovered, len(g.collecting), len(g.losses))
}

// TestObjectsOfANamespace: the namespace has more objects than one piece holds, and
// events come in between.
func TestObjectsOfANamespace(t *testing.T) {
	g := New()
	g.SetCatalog(NewCatalog(universe), epoch)
	g.AddResource(things.GroupResource(), things.GroupKind(), epoch)
	const n = 3*namespacePiece + 7
	for i := range n {
		g.Upsert(things.GroupResource(), object("many", types.UID(fmt.Sprint("m", i))), epoch)
	}
	g.Upsert(things.GroupResource(), object("one", "o"), epoch)
	events := make(chan struct{})
	go func() {
		defer close(events)
		for i := range 100 {
			g.Upsert(things.GroupResource(), object("other", types.UID(fmt.Sprint("x", i))), epoch)
		}
	}()
	seen := map[types.UID]bool{}
	for node := range g.InNamespace("many") {
		seen[node.Key.UID] = true
	}
	<-events
	if len(seen) != n {
		t.Errorf("%d objects of %d", len(seen), n)
	}
	for node := range g.InNamespace("one") {
		if node.Key.UID != "o" {
			t.Errorf("%v", node.Key)
		}
		break
	}
	if g.IsOwner("o") {
		t.Error("an object that no reference names counts as an owner")
	}
	g.Upsert(things.GroupResource(), object("one", "d", to(things, "o")), epoch)
	if !g.IsOwner("o") {
		t.Error("an object that a reference names does not count as an owner")
	}
}
