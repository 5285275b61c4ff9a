package graph

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestDeletedIsProofAndVanishedIsNot(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o"), to(widgets, "p"), to(widgets, "q")))
	for _, uid := range []types.UID{"o", "p"} {
		g.show(widgets, object("n", uid))
	}
	g.end(widgets, object("n", "o"))
	g.vanish(widgets, "p")
	g.end(widgets, object("n", "q")) // never shown: the event proves it all the same
	for i, want := range []FactState{Gone, Unproved, Gone} {
		if o := g.owners(things, "d")[i]; (o.Observed != nil) != (i == 1) || o.Fact.State != want {
			t.Errorf("owner %s: %+v", o.Reference.UID, o)
		}
	}
	// A live read has found that it is gone.
	g.end(widgets, object("n", "p"))
	if o := g.owners(things, "d")[1]; o.Observed != nil || o.Fact.State != Gone {
		t.Errorf("after a live read: %+v", o)
	}
}

func TestLearn(t *testing.T) {
	here, there := at(widgets, "n", "o"), at(widgets, "n", "p")
	present := Fact{State: Present, Seen: epoch}
	t.Run("nothing names the UID", func(t *testing.T) {
		g := newGraph(t)
		g.show(widgets, object("n", "x"))
		g.learn("o", here, Fact{State: Absent})
		g.learn("x", at(widgets, "n", "elsewhere"), Fact{State: Absent})
		g.wantStats(1, 0, 0)
		g.show(things, object("n", "d", to(widgets, "o")))
		if f := g.owners(things, "d")[0].Fact; f != (Fact{}) {
			t.Errorf("it was kept: %+v", f)
		}
	})
	t.Run("a monitor shows the object there", func(t *testing.T) {
		g := newGraph(t)
		g.show(widgets, object("n", "o"))
		g.show(things, object("n", "d", to(widgets, "o")))
		g.learn("o", here, Fact{State: Absent})
		g.vanish(widgets, "o")
		g.learn("o", here, Fact{State: Absent}) // it still counts as shown
		if f := g.owners(things, "d")[0].Fact; f != (Fact{}) {
			t.Errorf("it was kept: %+v", f)
		}
		// A read that finds it there and waiting does not contradict the monitor.
		waits := Fact{State: Present, Seen: epoch, Waiting: true}
		g.learn("o", here, waits)
		if f := g.owners(things, "d")[0].Fact; f != waits {
			t.Errorf("it was not kept: %+v", f)
		}
		g.show(widgets, object("n", "o"))
		if f := g.owners(things, "d")[0].Fact; f != (Fact{}) {
			t.Errorf("a monitor has shown it since: %+v", f)
		}
	})
	t.Run("a monitor shows the object elsewhere", func(t *testing.T) {
		g := newGraph(t)
		g.show(widgets, object("n", "o"))
		wrong := to(widgets, "o")
		wrong.Name = "p"
		g.show(things, object("n", "d", wrong))
		g.learn("o", there, Fact{State: Absent})
		if o := g.owners(things, "d")[0]; o.Fact.State != Absent || o.Observed != nil {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("each place has its own", func(t *testing.T) {
		g := newGraph(t)
		wrong := to(widgets, "o")
		wrong.Name = "p"
		g.show(things, object("n", "d", to(widgets, "o"), wrong, to(mirrors, "o")))
		g.learn("o", here, present)
		g.learn("o", there, Fact{State: Absent})
		owners := g.owners(things, "d")
		if owners[0].Fact != present || owners[1].Fact.State != Absent || owners[2].Fact != (Fact{}) {
			t.Errorf("got %+v", owners)
		}
	})
	t.Run("a newer read replaces presence", func(t *testing.T) {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.learn("o", here, present)
		later := Fact{State: Present, Seen: epoch.Add(1)}
		g.learn("o", here, later)
		if f := g.owners(things, "d")[0].Fact; f != later {
			t.Errorf("got %+v", f)
		}
		g.learn("o", here, Fact{State: Absent})
		if f := g.owners(things, "d")[0].Fact; f.State != Absent {
			t.Errorf("got %+v", f)
		}
	})
}

func TestObservedObjectOverrulesEarlierProof(t *testing.T) {
	// A live read may be answered before the monitor shows the object at all.
	for _, f := range []Fact{{State: Absent}, {State: Gone}, {State: Present, Seen: epoch}} {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.learn("o", at(widgets, "n", "o"), f)
		g.show(widgets, object("n", "o"))
		if o := g.owners(things, "d")[0]; o.Observed == nil || o.Fact != (Fact{}) {
			t.Errorf("%+v: shown as %+v", f, o)
		}
		g.vanish(widgets, "o")
		if o := g.owners(things, "d")[0]; o.Observed == nil || o.Fact != (Fact{}) {
			t.Errorf("%+v: then vanished: %+v", f, o)
		}
	}
}

// TestFactsLiveWithTheReferences: facts about a UID are kept as long as a reference names
// it. Otherwise the graph would grow with every owner that ever existed.
func TestFactsLiveWithTheReferences(t *testing.T) {
	gone := func(g *checked) bool { return g.probe("n", to(widgets, "o")).Fact.State == Gone }
	start := func(t *testing.T) *checked {
		g := newGraph(t)
		g.show(things, object("n", "d", to(widgets, "o")))
		g.show(things, object("n", "e", to(widgets, "o")))
		g.end(widgets, object("n", "o"))
		if !gone(g) {
			t.Fatal("the owner's end proves nothing")
		}
		return g
	}
	t.Run("kept by an update that still names it", func(t *testing.T) {
		g := start(t)
		g.end(things, object("n", "e"))
		other := to(widgets, "o")
		other.Name = "renamed"
		g.show(things, object("n", "d", to(widgets, "x"), other))
		if !gone(g) {
			t.Error("a fact is lost though a reference still names its owner")
		}
	})
	t.Run("kept by the other dependent", func(t *testing.T) {
		g := start(t)
		g.show(things, object("n", "d"))
		g.end(things, object("n", "d"))
		if !gone(g) {
			t.Error("a fact is lost though a reference still names its owner")
		}
	})
	for name, leave := range map[string]func(g *checked, uid types.UID){
		"references dropped": func(g *checked, uid types.UID) { g.show(things, object("n", uid)) },
		"references moved":   func(g *checked, uid types.UID) { g.show(things, object("n", uid, to(widgets, "p"))) },
		"deleted":            func(g *checked, uid types.UID) { g.end(things, object("n", uid)) },
		"vanished for good": func(g *checked, uid types.UID) {
			g.vanish(things, uid)
			if !gone(g) {
				g.t.Error("lost before anything is known of the dependent")
			}
			g.end(things, object("n", uid))
		},
		"resource removed": func(g *checked, _ types.UID) { g.drop(things) },
	} {
		t.Run("lost when all have "+name, func(t *testing.T) {
			g := start(t)
			leave(g, "d")
			leave(g, "e")
			if gone(g) {
				t.Error("a fact is kept though no reference names its owner")
			}
			// A new reference has to be verified again.
			g.AddResource(things.GroupResource(), things.GroupKind(), epoch)
			g.show(things, object("n", "f", to(widgets, "o")))
			if gone(g) {
				t.Error("a fact that was forgotten is back")
			}
		})
	}
	t.Run("the owner's own reference to itself does not count", func(t *testing.T) {
		g := newGraph(t)
		g.show(widgets, object("n", "o", to(widgets, "o")))
		g.end(widgets, object("n", "o"))
		if gone(g) {
			t.Error("a fact is kept though no reference names its owner")
		}
	})
}

// TestGoneStaysWhenTheKindIsNoLongerServed: when a CRD is deleted, its objects go first.
// Their dependents must not be kept merely because the kind can no longer be resolved.
func TestGoneStaysWhenTheKindIsNoLongerServed(t *testing.T) {
	for _, c := range []struct {
		name      string
		kind      *Resource
		owner     *Record
		namespace string // of the dependent
		want      FactState
	}{
		{"namespaced owner", widgets, object("n", "o"), "n", Gone},
		{"cluster-scoped owner", clusters, object("", "o"), "n", Gone},
		{"cluster-scoped both", clusters, object("", "o"), "", Gone},
		{"owner in another namespace", widgets, object("m", "o"), "n", Unproved},
		{"namespaced owner, cluster-scoped dependent", widgets, object("n", "o"), "", Unproved},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(t)
			g.show(c.kind, c.owner)
			g.show(things, object(c.namespace, "d", to(c.kind, "o")))
			g.end(c.kind, c.owner)
			g.serve(things)
			g.drop(c.kind)
			if o := g.owners(things, "d")[0]; o.Resource != nil || o.KindServed || o.Fact.State != c.want {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// A user can write references to one UID again and again, each time with another name,
// while another reference keeps the UID known.
func TestFactsOfOneUIDAreBounded(t *testing.T) {
	for name, of := range map[string]func(i int) string{
		"short names": func(i int) string { return fmt.Sprint("name-", i) },
		"long names":  func(i int) string { return fmt.Sprint(strings.Repeat("n", 10_000), i) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(t)
			g.show(things, object("n", "keeps", to(widgets, "o")))
			g.end(widgets, object("n", "o"))
			for i := range 10 * maxFacts {
				g.learn("o", at(widgets, "n", of(i)), Fact{State: Absent})
			}
			bytes := 0
			for _, f := range g.Graph.owners["o"].facts.list {
				bytes += len(f.at.Name)
			}
			if n := g.Graph.owners["o"].facts.len(); n > maxFacts+2 || bytes > 256*(maxFacts+2) {
				t.Errorf("%d facts are remembered, with names of %d bytes", n, bytes)
			}
			if f := g.owners(things, "keeps")[0].Fact; f.State != Gone {
				t.Errorf("what no read can find out again is %+v", f)
			}
		})
	}
}

// TestFactsAboutAllReferencesAreKept of an object that names one UID in more places than a turn reads, also
// if as many places have been named before: what one turn finds out, the next still knows.
func TestFactsAboutAllReferencesAreKept(t *testing.T) {
	const n = 5 * maxFacts
	for name, of := range map[string]func(i int) string{
		"short names": func(i int) string { return fmt.Sprint("name-", i) },
		"long names":  func(i int) string { return fmt.Sprint(strings.Repeat("n", 10_000), i) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(t)
			for _, from := range []int{0, n, 2 * n} {
				var references []Reference
				for i := range n {
					r := to(widgets, "o")
					r.Name = of(from + i)
					references = append(references, r)
				}
				rec := object("n", "d", references...)
				rec.ResourceVersion = fmt.Sprint(from + 1)
				g.show(things, rec)
				for i := range n {
					g.learn("o", at(widgets, "n", of(from+i)), Fact{State: Absent})
				}
				for i, o := range g.owners(things, "d") {
					if o.Fact.State != Absent {
						t.Fatalf("of %d places from %d on, that of number %d is forgotten", n, from, i)
					}
				}
			}
			g.show(things, object("n", "d", to(widgets, "o")))
			if n := g.Graph.owners["o"].facts.len(); n > maxFacts+2 {
				t.Errorf("%d facts are remembered when nothing names the places any more", n)
			}
		})
	}
}
