package graph

import (
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// populated is how many objects the graphs of these benchmarks hold.
const populated = 100_000

// world returns the records of owners with nine dependents each, as monitors show them: with UIDs and names of real
// length, and blocking references.
func world(n int) []*Record {
	all := make([]*Record, 0, n)
	var owner *Record
	for i := range n {
		r := &Record{
			Namespace: "production", Name: fmt.Sprintf("settings-%08d", i), ResourceVersion: strconv.Itoa(1_000_000 + i),
			UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)),
		}
		if i%10 == 0 {
			owner = r
		} else {
			r.References = []Reference{{APIVersion: "v1", Kind: "Thing", Name: owner.Name, UID: owner.UID, Controller: True, BlockOwnerDeletion: True}}
		}
		all = append(all, r)
	}
	return all
}

// of returns a graph of these records, whose invariants are not checked.
func of(records []*Record) *Graph {
	g := New()
	g.SetCatalog(NewCatalog(universe), epoch)
	g.AddResource(things.GroupResource(), things.GroupKind(), epoch)
	for _, r := range records {
		g.Upsert(things.GroupResource(), r, epoch)
	}
	return g
}

// BenchmarkApply applies one event per iteration to a graph that holds, or will hold, 100,000 objects.
func BenchmarkApply(b *testing.B) {
	records := world(populated)
	gr := things.GroupResource()
	changed, deleting := make([]*Record, populated), make([]*Record, populated)
	for i, r := range records {
		c := *r
		c.ResourceVersion = strconv.Itoa(2_000_000 + i)
		changed[i] = &c
		d := c
		d.Deleting, d.Foreground = true, true
		deleting[i] = &d
	}
	for _, bench := range []struct {
		name   string
		before []*Record
		event  func(*Graph, int)
	}{
		{"added", nil, func(g *Graph, i int) { g.Upsert(gr, records[i], epoch) }},
		{"changed", records, func(g *Graph, i int) { g.Upsert(gr, changed[i], epoch) }},
		{"deleted", records, func(g *Graph, i int) { g.Deleted(gr, records[i], epoch) }},
		{"marked", records, func(g *Graph, i int) { g.Upsert(gr, deleting[i], epoch) }},
		{"deleted-in-foreground", deleting, func(g *Graph, i int) { g.Deleted(gr, deleting[populated-1-i], epoch) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var g *Graph
			for n := range b.N {
				i := n % populated
				if i == 0 {
					b.StopTimer()
					g = of(bench.before)
					b.StartTimer()
				}
				bench.event(g, i)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkView takes the snapshots that decisions are made from.
func BenchmarkView(b *testing.B) {
	records := world(populated)
	wide := world(populated)
	root := *wide[0]
	root.Deleting, root.Foreground = true, true
	for i := range wide {
		r := *wide[i]
		r.References = []Reference{{APIVersion: "v1", Kind: "Thing", Name: root.Name, UID: root.UID, BlockOwnerDeletion: True}}
		wide[i] = &r
	}
	wide[0] = &root
	for _, bench := range []struct {
		name  string
		graph *Graph
		key   Key
	}{
		{"dependent", of(records), key(things, records[1].UID)},
		{"owner", of(records), key(things, records[0].UID)},
		{"waiting-for-100000", of(wide), key(things, root.UID)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := bench.graph.View(bench.key); !ok {
					b.Fatal("the object is not there")
				}
			}
		})
	}
}

// BenchmarkWhole reads all 100,000 objects under the graph's lock, as reports and metrics do.
func BenchmarkWhole(b *testing.B) {
	g := of(world(populated))
	for name, read := range map[string]func(){
		"stats":      func() { g.Stats() },
		"versions":   func() { g.Versions(things.GroupResource()) },
		"collecting": func() { g.Collecting() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}

// waitingWorld returns n objects in foreground deletion; object i blocks the owners that owners(i) lists.
func waitingWorld(n int, owners func(i int) []int) []*Record {
	records := world(n)
	for i, r := range records {
		r.Deleting, r.Foreground, r.References = true, true, nil
		for _, o := range owners(i) {
			r.References = append(r.References, Reference{APIVersion: "v1", Kind: "Thing", Name: records[o].Name, UID: records[o].UID, BlockOwnerDeletion: True})
		}
	}
	return records
}

func ringsOf(size int) func(int) []int {
	return func(i int) []int {
		if (i+1)%size == 0 {
			return []int{i + 1 - size}
		}
		return []int{i + 1}
	}
}

// side returns the members of one side of a complete bipartite graph.
func side(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}

// BenchmarkCycles searches for rings in graphs that hold as many rings, or as large ones, as a user could make. The
// time for a ring of 100,000 must be about ten times that for one of 10,000.
// BenchmarkSetCatalog measures what a new kind costs while ten objects name the same thousands of owners. It should grow with the
// references.
func BenchmarkSetCatalog(b *testing.B) {
	for _, owners := range []int{1000, 2000, 4000} {
		b.Run(strconv.Itoa(owners), func(b *testing.B) {
			records := world(owners + 10)
			for i := range records {
				r := *records[i]
				r.References = nil
				for j := 0; i >= owners && j < owners; j++ {
					r.References = append(r.References, Reference{APIVersion: "v1", Kind: "Thing", Name: records[j].Name, UID: records[j].UID, BlockOwnerDeletion: True})
				}
				records[i] = &r
			}
			g := of(records)
			b.ReportAllocs()
			for b.Loop() {
				g.SetCatalog(g.Catalog(), epoch)
			}
		})
	}
}

func BenchmarkCycles(b *testing.B) {
	for _, bench := range []struct {
		name    string
		objects int
		owners  func(int) []int
		rings   int
	}{
		{"ring-of-10000", 10_000, ringsOf(10_000), 1},
		{"ring-of-100000", 100_000, ringsOf(100_000), 1},
		{"1000-rings-of-10", 10_000, ringsOf(10), 1000},
		{"bipartite-300x300", 600, func(i int) []int {
			if i < 300 {
				return side(300, 300)
			}
			return side(0, 300)
		}, 1},
		{"chain-of-100000", 100_000, func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		}, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			g := of(waitingWorld(bench.objects, bench.owners))
			b.ReportAllocs()
			for b.Loop() {
				if n := len(g.Cycles()); n != bench.rings {
					b.Fatalf("%d rings were found", n)
				}
			}
		})
	}
}

// BenchmarkDeletedFromDepth deletes a chain of objects in foreground deletion from its end. Each deletion is progress
// for every object above it, and the first object is viewed after each. One iteration deletes the whole chain.
func BenchmarkDeletedFromDepth(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 20_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			records := waitingWorld(n, func(i int) []int {
				if i == 0 {
					return nil
				}
				return []int{i - 1}
			})
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				g := of(records)
				b.StartTimer()
				for i := n - 1; i >= 0; i-- {
					g.Deleted(things.GroupResource(), records[i], epoch)
					g.View(key(things, records[0].UID))
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "deletions/s")
		})
	}
}
