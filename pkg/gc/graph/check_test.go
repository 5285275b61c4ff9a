package graph

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestCheckFindsCorruption breaks each invariant by hand. A check that finds
// nothing makes every other test here worthless.
func TestCheckFindsCorruption(t *testing.T) {
	for _, c := range []struct {
		name, want string
		corrupt    func(*Graph)
	}{
		{"node under another UID", "is filed under", func(g *Graph) { g.nodes["x"] = g.nodes["d"]; delete(g.nodes, "d") }},
		{"record replaced by another object's", "is filed under", func(g *Graph) { g.nodes["d"].rec = object("n", "x", to(widgets, "o"), to(widgets, "v")) }},
		{"resource not announced", "not announced", func(g *Graph) { delete(g.tables, things.GroupResource()) }},
		{"another table for the resource", "not announced", func(g *Graph) {
			g.tables[things.GroupResource()] = &table{resource: things.GroupResource(), kind: things.GroupKind(), nodes: 1}
		}},
		{"two nodes of one object", "two nodes", func(g *Graph) {
			d := g.nodes["d"]
			g.nodes["d"] = &node{rec: d.rec, table: d.table, twin: d}
		}},
		{"owner not entered", "not entered", func(g *Graph) { delete(g.owners, "v") }},
		{"dependent not listed", "does not list it", func(g *Graph) { g.owners["o"].dependents.remove(g.nodes["d"]) }},
		{"too many nodes counted", "counts 2 nodes and has 1", func(g *Graph) { g.tables[things.GroupResource()].nodes++ }},
		{"too few nodes counted", "counts 0 nodes and has 1", func(g *Graph) { g.tables[things.GroupResource()].nodes-- }},
		{"nodes counted where none are", "counts 1 nodes and has 0", func(g *Graph) { g.tables[clusters.GroupResource()].nodes++ }},
		{"too many edges counted", "references are counted", func(g *Graph) { g.edges++ }},
		{"too few edges counted", "references are counted", func(g *Graph) { g.edges-- }},
		{"unreferenced virtual node", "nothing names it", func(g *Graph) { g.owners["x"] = &ownership{} }},
		{"dependent that is not observed", "not observed", func(g *Graph) {
			ghost := &node{rec: object("n", "ghost", to(widgets, "o")), table: g.tables[things.GroupResource()]}
			g.owners["o"].dependents.add(ghost)
		}},
		{"dependent that left a twin behind", "not observed", func(g *Graph) {
			d := g.nodes["d"]
			g.nodes["d"] = &node{rec: d.rec, table: d.table}
		}},
		{"dependent that does not name it", "it has 0", func(g *Graph) { g.owners["v"].dependents.add(g.nodes["o"]) }},
		{"references changed behind the index", "it has 0", func(g *Graph) { g.nodes["d"].rec = object("n", "d", to(widgets, "o"), to(widgets, "o")) }},
		{"observed and proved gone", "proved absent", func(g *Graph) {
			g.owners["o"].facts.add(placedFact{at(widgets, "n", "o"), Fact{State: Gone}})
		}},
		{"observed and proved absent", "proved absent", func(g *Graph) {
			g.owners["o"].facts.add(placedFact{at(widgets, "n", "o"), Fact{State: Absent}})
		}},
		{"a twin observed and proved absent", "proved absent", func(g *Graph) {
			g.nodes["o"].twin = &node{rec: object("n", "o"), table: g.tables[mirrors.GroupResource()]}
			g.tables[mirrors.GroupResource()].nodes++
			g.owners["o"].facts.add(placedFact{at(mirrors, "n", "o"), Fact{State: Gone}})
		}},
		{"fact in another place than the index says", "is not found", func(g *Graph) {
			f := &g.owners["v"].facts
			for i := range fewFacts + 1 {
				f.add(placedFact{at(widgets, "n", fmt.Sprint(i)), Fact{State: Absent}})
			}
			f.list[0], f.list[1] = f.list[1], f.list[0]
		}},
		{"facts weighed wrongly", "they weigh 1", func(g *Graph) {
			g.owners["v"].facts.add(placedFact{at(widgets, "n", "v"), Fact{State: Absent}})
			g.owners["v"].facts.weight++
		}},
		{"more facts than may be kept", "facts are kept", func(g *Graph) {
			for i := range 2 * maxFacts {
				g.owners["v"].facts.add(placedFact{at(widgets, "n", fmt.Sprint(i)), Fact{State: Absent}})
			}
		}},
		{"references weighed wrongly", "counted as 2", func(g *Graph) { g.owners["v"].weight++ }},
		{"waits and is not noted", "waits for the collector", func(g *Graph) { g.nodes["o"].rec = waiting(object("n", "o")) }},
		{"noted and does not wait", "waits for the collector", func(g *Graph) { g.collecting[g.nodes["o"]] = &Wait{} }},
		{"noted and not there", "not observed", func(g *Graph) {
			g.collecting[&node{rec: waiting(object("n", "o")), table: g.nodes["o"].table}] = &Wait{}
		}},
		{"lost and not there", "not observed", func(g *Graph) { g.losses[&node{rec: object("n", "o"), table: g.nodes["o"].table}] = epoch }},
		{"too much counted as blocking", "0 references block", func(g *Graph) { g.nodes["o"].blocking++ }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraph(t)
			g.show(widgets, object("n", "o"))
			g.show(things, object("n", "d", to(widgets, "o"), to(widgets, "v")))
			c.corrupt(g.Graph)
			err := g.Check()
			if err == nil {
				t.Fatal("Check did not find the corruption")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %q, want something with %q", err, c.want)
			}
		})
	}
}

// TestCheckReportsEverything: one corruption must not hide another.
func TestCheckReportsEverything(t *testing.T) {
	g := newGraph(t)
	g.show(things, object("n", "d", to(widgets, "o")))
	g.edges += 3
	g.tables[schema.GroupResource{Resource: "things"}].nodes = 7
	err := g.Check()
	if err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("got %v", err)
	}
}
