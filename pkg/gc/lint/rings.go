package lint

import (
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// edge leads from an object to an owner that is observed where the reference says.
type edge struct {
	owner    graph.Key
	blocking bool
}

func edges(v *graph.View) []edge {
	var all []edge
	for i := range v.Owners {
		if o := &v.Owners[i]; o.Observed != nil {
			all = append(all, edge{graph.Key{Resource: o.Resource.GroupResource(), UID: o.Reference.UID}, o.Reference.BlockOwnerDeletion == graph.True})
		}
	}
	return all
}

// rings finds the objects that own each other: the strongly connected components of the
// references, and objects that own themselves.
func (l *linter) rings(owners map[graph.Key][]edge) {
	nodes := make(map[graph.Key]graph.Node, len(owners))
	for _, n := range l.all {
		if len(owners[n.Key]) > 0 {
			nodes[n.Key] = n
		}
	}
	for _, ring := range components(owners) {
		in := make(map[graph.Key]bool, len(ring))
		for _, k := range ring {
			in[k] = true
		}
		f := Finding{Code: UnreachableRing, Effect: Kept}
		reported, waiting := false, true
		for _, k := range ring {
			n := nodes[k]
			f.Others = append(f.Others, n)
			reported = reported || l.Only(n.Record)
			blocks := false
			for _, e := range owners[k] {
				if !in[e.owner] {
					f.Code = Ring
				} else if e.blocking {
					blocks = true
				}
			}
			waiting = waiting && blocks && n.Record.WaitingForDependents()
		}
		if !reported {
			continue
		}
		if waiting && !l.BreaksRings {
			f.Effect = Stuck
		}
		slices.SortFunc(f.Others, CompareObjects)
		f.Object, f.Others = f.Others[0], f.Others[1:]
		l.add(f)
	}
}

// components returns the strongly connected components that hold a ring (Tarjan, 1972). It does
// not recurse, so that a ring of any length fits.
func components(owners map[graph.Key][]edge) [][]graph.Key {
	type visit struct {
		key        graph.Key
		index, low int
		onStack    bool
		next       int
	}
	var (
		rings [][]graph.Key
		stack []*visit
		seen  = make(map[graph.Key]*visit, len(owners))
	)
	enter := func(k graph.Key) *visit {
		v := &visit{key: k, index: len(seen), low: len(seen), onStack: true}
		seen[k] = v
		stack = append(stack, v)
		return v
	}
	for from := range owners {
		if seen[from] != nil {
			continue
		}
		for path := []*visit{enter(from)}; len(path) > 0; {
			v := path[len(path)-1]
			if v.next < len(owners[v.key]) {
				to := owners[v.key][v.next].owner
				v.next++
				if o := seen[to]; o == nil {
					path = append(path, enter(to))
				} else if o.onStack {
					v.low = min(v.low, o.index)
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				below := path[len(path)-1]
				below.low = min(below.low, v.low)
			}
			if v.low != v.index {
				continue
			}
			at := len(stack) - 1
			for stack[at] != v {
				at--
			}
			var ring []graph.Key
			for _, m := range stack[at:] {
				m.onStack = false
				ring = append(ring, m.key)
			}
			stack = stack[:at]
			if len(ring) > 1 || slices.ContainsFunc(owners[v.key], func(e edge) bool { return e.owner == v.key }) {
				rings = append(rings, ring)
			}
		}
	}
	return rings
}
