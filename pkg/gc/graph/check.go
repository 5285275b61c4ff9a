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
				if o := g.owners[r.UID]; o == nil {
					bad("%s names %s, which is not entered", uid, r.UID)
				} else if o.dependents.references(n) == 0 {
					bad("%s names %s, which does not list it", uid, r.UID)
				}
			}
		}
	}
	for n := range observed {
		if w := g.collecting[n]; (w != nil) != n.rec.collecting() {
			bad("%s waits for the collector: %v, noted: %v", n.rec.UID, n.rec.collecting(), w != nil)
		}
		if _, noted := g.terminating[n]; !noted && n.rec.Deleting && !n.rec.collecting() {
			bad("%s is terminating, and that is not noted", n.rec.UID)
		}
		var blocking int32
		if o := g.owners[n.rec.UID]; o != nil {
			for d := range o.dependents.all {
				for i := range d.rec.References {
					if g.blocks(d, &d.rec.References[i], n) {
						blocking++
					}
				}
			}
		}
		if blocking != n.blocking {
			bad("%d references block %s, %d are counted", blocking, n.key(), n.blocking)
		}
	}
	for n := range g.terminating {
		if !observed[n] || !n.rec.Deleting || n.rec.collecting() {
			bad("%s is noted as terminating", n.rec.UID)
		}
	}
	for n := range g.collecting {
		if !observed[n] {
			bad("%s is noted as waiting and not observed", n.rec.UID)
		}
	}
	for n := range g.losses {
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
	for uid, o := range g.owners {
		if o.dependents.len() == 0 {
			bad("%s is entered and nothing names it", uid)
		}
		weight := 0
		for d := range o.dependents.all {
			if !observed[d] {
				bad("%s lists a dependent %s that is not observed", uid, d.rec.UID)
			}
			var names int32
			for _, r := range d.rec.References {
				if r.UID == uid {
					names++
					weight += weightOf(r.Name)
				}
			}
			if names != o.dependents.references(d) {
				bad("%s lists %s with %d references, it has %d", uid, d.rec.UID, o.dependents.references(d), names)
			}
		}
		if weight != o.weight {
			bad("the references to %s weigh %d and are counted as %d", uid, weight, o.weight)
		}
		if err := o.facts.check(); err != nil {
			bad("the facts about %s: %w", uid, err)
		}
		if o.facts.weight > o.mostFacts() {
			bad("%d facts are kept of %s", o.facts.len(), uid)
		}
		for n := g.nodes[uid]; n != nil; n = n.twin {
			if o.known(n.coordinates()).Proved() {
				bad("%s is observed and proved absent at %+v", uid, n.coordinates())
			}
		}
	}
	return errors.Join(errs...)
}
