package graph

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SetCatalog replaces the catalog of the served kinds. It returns the objects that need a
// new decision: those whose references may be judged otherwise now, and those that could
// not be changed or deleted while their own kind was not served. It takes time linear in
// all references.
func (g *Graph) SetCatalog(c *Catalog, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.catalog, g.discovered = c, true
	g.waitingChanged = true
	g.noteListing(now)
	var affected affected
	g.recountAll() // all that wait are affected in any case
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			if n.missing || len(n.rec.References) > 0 && !g.ownersSolid(n) {
				affected.add(n)
			}
		}
	}
	for n := range g.collecting {
		affected.add(n)
	}
	return affected.all(g)
}

// Catalog returns the current catalog.
func (g *Graph) Catalog() *Catalog {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.catalog
}

// AddResource announces a resource whose objects will be shown from now on, and takes
// one that was suspended up again. A second call for the same resource changes nothing:
// the new monitor of a changed version takes over the nodes of the old one. A resource
// whose kind has changed has to be removed first.
func (g *Graph) AddResource(gr schema.GroupResource, gk schema.GroupKind, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	switch {
	case t == nil:
		g.tables[gr] = &table{resource: gr, kind: gk}
	case t.suspended:
		t.suspended, t.listed, t.unreadable = false, false, false
	}
	g.noteListing(now)
}

// RemoveResource drops all nodes of a resource: they are known to be gone, or nothing
// will ever show their end. It leaves no Fact: the objects are neither present nor absent
// now. A live read that found an object of the kind is forgotten too: when the kind is
// served again, the object need not be there. What was proved gone stays. It returns the
// objects that named one of them, and the owners that nothing blocks any more. It takes
// time linear in all UIDs that references name.
func (g *Graph) RemoveResource(gr schema.GroupResource, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var affected affected
	gone := g.nodesOf(t)
	for _, n := range gone {
		g.remove(n, &affected)
	}
	delete(g.tables, gr)
	for _, n := range gone {
		if o := g.owners[n.rec.UID]; o != nil {
			affected.addAll(&o.dependents)
		}
	}
	g.forgetFacts(&affected, func(f *placedFact) bool {
		return f.State == Present && f.at.Group == t.kind.Group && f.at.Kind == t.kind.Kind
	})
	g.noteListing(now)
	return affected.all(g)
}

// Suspend records that nobody serves a resource any more though its objects may exist.
// Its nodes stay, as they were last shown: they go on blocking their owners. AddResource
// takes the resource up again; RemoveResource drops it.
func (g *Graph) Suspend(gr schema.GroupResource, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.suspended = true
		g.noteListing(now)
	}
}

// Suspended returns the suspended resources that have objects, and how many.
func (g *Graph) Suspended() map[schema.GroupResource]int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := map[schema.GroupResource]int{}
	for gr, t := range g.tables {
		if t.suspended && t.nodes > 0 {
			all[gr] = t.nodes
		}
	}
	return all
}

// Listed records that everything that a resource's monitor first listed has been shown.
func (g *Graph) Listed(gr schema.GroupResource, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.listed = true
		g.noteListing(now)
	}
}

// SetReadable records whether a resource can be listed and watched. One that cannot is
// not waited for.
func (g *Graph) SetReadable(gr schema.GroupResource, readable bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.unreadable = !readable
		g.noteListing(now)
	}
}

// Synced says whether every resource that can be read has been listed, and since when:
// a dependent of any object would be known.
func (g *Graph) Synced() (since time.Time, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.syncedSince, !g.syncedSince.IsZero()
}

// noteListing brings Synced up to date.
func (g *Graph) noteListing(now time.Time) {
	synced := g.discovered
	for _, t := range g.tables {
		synced = synced && (t.listed || t.unreadable || t.suspended)
	}
	for _, r := range g.catalog.resources {
		synced = synced && (!r.Monitored || g.tables[r.GroupResource()] != nil)
	}
	switch {
	case !synced:
		g.syncedSince = time.Time{}
	case g.syncedSince.IsZero():
		g.syncedSince = now
	}
}
