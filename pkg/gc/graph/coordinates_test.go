package graph

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestReferenceIsJudgedByItsOwnCoordinates has one observed owner and references to its
// UID: right ones, and ones that are wrong in each way.
func TestReferenceIsJudgedByItsOwnCoordinates(t *testing.T) {
	right := to(widgets, "o")
	with := func(change func(*Reference)) Reference { r := right; change(&r); return r }
	for _, c := range []struct {
		name      string
		namespace string
		ref       Reference
		resource  *Resource
		served    bool
		at        Coordinates
		observed  bool
	}{
		{"right", "n", right, widgets, true, at(widgets, "n", "o"), true},
		{"served, not preferred", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v1" }), widgets, true, at(widgets, "n", "o"), true},
		{"controller and block do not matter", "n", with(func(r *Reference) { r.Controller, r.BlockOwnerDeletion = True, False }), widgets, true, at(widgets, "n", "o"), true},
		{"version not served", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v9" }), nil, true, at(widgets, "n", "o"), false},
		{"no version", "n", with(func(r *Reference) { r.APIVersion = "ex.io/" }), nil, true, at(widgets, "n", "o"), false},
		{"another kind that is served", "n", with(func(r *Reference) { r.APIVersion, r.Kind = "v1", "Thing" }), things, true, at(things, "n", "o"), false},
		{"a kind of that name in another group", "n", with(func(r *Reference) { r.APIVersion = "old.io/v1" }), mirrors, true, at(mirrors, "n", "o"), false},
		{"kind unknown", "n", with(func(r *Reference) { r.Kind = "Nonsense" }), nil, false, Coordinates{"ex.io", "Nonsense", "n", "o"}, false},
		{"kind in the wrong case", "n", with(func(r *Reference) { r.Kind = "widget" }), nil, false, Coordinates{"ex.io", "widget", "n", "o"}, false},
		{"group unknown", "n", with(func(r *Reference) { r.APIVersion = "none.io/v1" }), nil, false, Coordinates{"none.io", "Widget", "n", "o"}, false},
		{"group and version cannot be read", "n", with(func(r *Reference) { r.APIVersion = "ex.io/v2/v3" }), nil, false, Coordinates{"ex.io/v2/v3", "Widget", "n", "o"}, false},
		{"nothing at all", "n", Reference{UID: "o"}, nil, false, Coordinates{Namespace: "n"}, false},
		{"another namespace", "m", right, widgets, true, at(widgets, "m", "o"), false},
		{"cluster-scoped dependent", "", right, widgets, true, at(widgets, "", "o"), false},
		{"another name", "n", with(func(r *Reference) { r.Name = "p" }), widgets, true, at(widgets, "n", "p"), false},
		{"another UID", "n", with(func(r *Reference) { r.UID = "p" }), widgets, true, at(widgets, "n", "o"), false},
	} {
		for _, ownerFirst := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				g := newGraph(t)
				o := object("n", "o")
				if ownerFirst {
					g.show(widgets, o)
				}
				d := object(c.namespace, "d", c.ref)
				// The dependent's own kind says nothing about its owner's.
				g.show(mirrors, d)
				if !ownerFirst {
					g.show(widgets, o)
				}
				got := g.owners(mirrors, "d")[0]
				if got.Reference != c.ref || got.Resource != c.resource || got.KindServed != c.served || got.At != c.at || (got.Observed == o) != c.observed {
					t.Errorf("owner first %v: got %+v", ownerFirst, got)
				}
				if got.Fact != (Fact{}) {
					t.Errorf("something is proved: %+v", got.Fact)
				}
				// The owner's deletion is a proof at the owner's own coordinates, in any
				// version, and nowhere else.
				g.end(widgets, o)
				got = g.owners(mirrors, "d")[0]
				if proved := got.Fact.State == Gone; proved != (c.at == at(widgets, "n", "o") && c.ref.UID == "o") {
					t.Errorf("owner first %v: after the owner's end: %+v", ownerFirst, got)
				}
			})
		}
	}
}

// TestGoodSiblingIsNotPunishedForABadOne shows the siblings in both orders, before
// and after the owner and the proofs.
func TestGoodSiblingIsNotPunishedForABadOne(t *testing.T) {
	bad := to(widgets, "o")
	bad.Name = "misspelt"
	for _, order := range [][]string{{"good", "bad"}, {"bad", "good"}} {
		g := newGraph(t)
		for _, name := range order {
			ref := to(widgets, "o")
			if name == "bad" {
				ref = bad
			}
			g.show(things, object("n", types.UID(name), ref))
		}
		g.learn("o", at(widgets, "n", "misspelt"), Fact{State: Absent})
		if o := g.owners(things, "bad")[0]; o.Fact.State != Absent {
			t.Errorf("%v: bad: %+v", order, o)
		}
		if o := g.owners(things, "good")[0]; o.Fact.State != Unproved {
			t.Errorf("%v: good: %+v", order, o)
		}
		g.show(widgets, object("n", "o"))
		if o := g.owners(things, "bad")[0]; o.Fact.State != Absent || o.Observed != nil {
			t.Errorf("%v: the owner's arrival cleared the bad one: %+v", order, o)
		}
		if o := g.owners(things, "good")[0]; o.Observed == nil {
			t.Errorf("%v: good: %+v", order, o)
		}
	}
}

func TestClusterScopedOwner(t *testing.T) {
	g := newGraph(t)
	o := object("", "c")
	g.show(clusters, o)
	for _, namespace := range []string{"", "n", "m"} {
		if v := g.probe(namespace, to(clusters, "c")); v.Observed != o || v.At != at(clusters, "", "c") {
			t.Errorf("from namespace %q: %+v", namespace, v)
		}
	}
}
