package graph

import (
	"errors"
	"fmt"
)

// Check verifies the graph's invariants and returns every violation, or nil. It
// reads the whole graph under its lock: tests call it after every step.
func (g *Graph) Check() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	count := make(map[*table]int)
	edges := 0
	observed := make(map[*node]bool)
	for uid, first := range g.nodes {
		seen := make(map[*table]bool)
		for n := first; n != nil; n = n.twin {
			observed[n] = true
			if n.rec.UID != uid {
				bad("node %s is filed under %s", n.rec.UID, uid)
			}
			if g.tables[n.table.resource] != n.table {
				bad("node %s belongs to %s, which is not announced", uid, n.table.resource)
			}
			if seen[n.table] {
				bad("resource %s has two nodes with UID %s", n.table.resource, uid)
			}
			seen[n.table] = true
			count[n.table]++
			edges += len(n.rec.References)
			for _, r := range n.rec.References {
				if nm := g.named[r.UID]; nm == nil {
					bad("%s names %s, which is not entered", uid, r.UID)
				} else if _, ok := nm.dependents[n]; !ok {
					bad("%s names %s, which does not list it", uid, r.UID)
				}
			}
		}
	}
	for n := range observed {
		if _, noted := g.waiting[n]; noted != n.rec.WaitingForDependents() {
			bad("%s waits for dependents: %v, noted: %v", n.rec.UID, n.rec.WaitingForDependents(), noted)
		}
	}
	for n := range g.waiting {
		if !observed[n] {
			bad("%s is noted as waiting and not observed", n.rec.UID)
		}
	}
	for n := range g.lost {
		if !observed[n] {
			bad("%s is noted as having lost a dependent and not observed", n.rec.UID)
		}
	}
	for gr, t := range g.tables {
		if t.nodes != count[t] {
			bad("%s counts %d nodes and has %d", gr, t.nodes, count[t])
		}
	}
	if edges != g.edges {
		bad("%d references are counted, %d exist", g.edges, edges)
	}
	for uid, nm := range g.named {
		if len(nm.dependents) == 0 {
			bad("%s is entered and nothing names it", uid)
		}
		for d := range nm.dependents {
			if !observed[d] {
				bad("%s lists a dependent %s that is not observed", uid, d.rec.UID)
			}
			names := false
			for _, r := range d.rec.References {
				names = names || r.UID == uid
			}
			if !names {
				bad("%s lists %s, which does not name it", uid, d.rec.UID)
			}
		}
		for n := g.nodes[uid]; n != nil; n = n.twin {
			if f, ok := nm.facts[n.coordinates()]; ok && f.Proved() {
				bad("%s is observed and proved absent at %+v", uid, n.coordinates())
			}
		}
	}
	return errors.Join(errs...)
}
