package graph

import "k8s.io/apimachinery/pkg/types"

// What blocks an owner in foreground deletion is counted as references come and go,
// and searched for only when somebody asks for names.

// blocks is true if a reference makes the owner wait for the reference's holder, once
// the owner is in foreground deletion: it says so, and names the owner by its own kind,
// name and namespace. A reference whose kind nobody serves may be right, and blocks;
// but one from another namespace can never be right about a namespaced owner.
func (g *Graph) blocks(holder *node, r *Reference, o *node) bool {
	if r.UID != o.rec.UID || r.BlockOwnerDeletion != True || o.rec.Namespace != "" && o.rec.Namespace != holder.rec.Namespace {
		return false
	}
	res, gk, _ := g.catalog.resolve(r.APIVersion, r.Kind)
	if res == nil {
		return true
	}
	// Under each resource that shows the object it may have another kind.
	for n := g.nodes[o.rec.UID]; n != nil; n = n.twin {
		if gk == n.table.kind && r.Name == n.rec.Name {
			return true
		}
	}
	return false
}

// count adds a reference to what blocks its owner, or takes it away.
func (g *Graph) count(holder *node, r *Reference, by int32, affected *affected) {
	if r.BlockOwnerDeletion != True {
		return
	}
	for o := g.nodes[r.UID]; o != nil; o = o.twin {
		if !g.blocks(holder, r, o) {
			continue
		}
		o.blocking += by
		if o.rec.WaitingForDependents() {
			g.waitingChanged = true
			if o.blocking == 0 {
				affected.released = append(affected.released, o)
			}
		}
	}
}

// recount counts anew what blocks the objects with a UID: one of them has come or gone
// or has another name, or other kinds are served.
func (g *Graph) recount(uid types.UID, affected *affected) {
	first := g.nodes[uid]
	if first == nil {
		return
	}
	for o := first; o != nil; o = o.twin {
		before := o.blocking
		o.blocking = 0
		if held := g.owners[uid]; held != nil {
			for d := range held.dependents.all {
				for i := range d.rec.References {
					if r := &d.rec.References[i]; g.blocks(d, r, o) {
						o.blocking++
					}
				}
			}
		}
		if o.blocking == before || !o.rec.WaitingForDependents() {
			continue
		}
		g.waitingChanged = true
		if o.blocking == 0 {
			affected.released = append(affected.released, o)
		}
	}
}

// recountAll counts anew what blocks every object, in one pass over all references: counting for each owner would read
// all references of its dependents each time.
func (g *Graph) recountAll() {
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			n.blocking = 0
		}
	}
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			for i := range n.rec.References {
				r := &n.rec.References[i]
				for o := g.nodes[r.UID]; o != nil; o = o.twin {
					if g.blocks(n, r, o) {
						o.blocking++
					}
				}
			}
		}
	}
}

// Blockers returns objects that an object in foreground deletion waits for, as many as
// most at the most. It takes time linear in the object's dependents and their references.
func (g *Graph) Blockers(k Key, most int) []Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o := g.observed(k)
	if o == nil || !o.rec.WaitingForDependents() || o.blocking == 0 {
		return nil
	}
	var all []Node
	for d := range g.owners[o.rec.UID].dependents.all {
		if len(all) == most {
			break
		}
		for i := range d.rec.References {
			if g.blocks(d, &d.rec.References[i], o) {
				all = append(all, d.outside())
				break
			}
		}
	}
	return all
}
