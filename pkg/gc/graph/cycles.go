package graph

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Member is one object of a ring.
type Member struct {
	Key    Key
	Record *Record
	// Blocking are its references to members of the same ring that make those wait.
	Blocking []Reference
}

// TakeWaitingChanged says whether anything about the objects in foreground deletion
// has changed since the last call: whether Cycles could find something new.
func (g *Graph) TakeWaitingChanged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := g.waitingChanged
	g.waitingChanged = false
	return changed
}

// Cycles returns the rings of objects in foreground deletion: the strongly
// connected components, each with at least one reference within it, of the objects
// that wait for their dependents, where a blocking reference leads from a dependent
// to its owner. No member of such a ring can ever be the first to go. An object can
// be a ring of its own. What merely leads into a ring or out of it is no member.
//
// It takes time linear in the waiting objects and their references (Tarjan, 1972),
// and does not recurse, so that a ring of any length fits.
func (g *Graph) Cycles() [][]Member {
	g.mu.RLock()
	defer g.mu.RUnlock()
	t := tarjan{g: g, state: make(map[*node]*visit, len(g.collecting))}
	for n := range g.collecting {
		if n.rec.WaitingForDependents() && t.state[n] == nil {
			t.search(n)
		}
	}
	return t.rings
}

// visit is what the search knows of an object it has reached.
type visit struct {
	n          *node
	index, low int
	onStack    bool
	owners     []*node // that it blocks and that wait too
	next       int     // the owner to look at next
}

type tarjan struct {
	g     *Graph
	state map[*node]*visit
	stack []*visit
	rings [][]Member
}

func (t *tarjan) enter(n *node) *visit {
	v := &visit{n: n, index: len(t.state), low: len(t.state), onStack: true, owners: t.g.blockedOwners(n)}
	t.state[n] = v
	t.stack = append(t.stack, v)
	return v
}

// search visits everything that can be reached from an object. path is what a
// recursive search would have on its call stack.
func (t *tarjan) search(from *node) {
	path := []*visit{t.enter(from)}
	for len(path) > 0 {
		v := path[len(path)-1]
		if v.next < len(v.owners) {
			o := v.owners[v.next]
			v.next++
			if seen := t.state[o]; seen == nil {
				path = append(path, t.enter(o))
			} else if seen.onStack {
				v.low = min(v.low, seen.index)
			}
			continue
		}
		path = path[:len(path)-1]
		if len(path) > 0 {
			below := path[len(path)-1]
			below.low = min(below.low, v.low)
		}
		if v.low == v.index {
			t.component(v)
		}
	}
}

// component takes a complete component off the stack and keeps it if it is a ring.
func (t *tarjan) component(root *visit) {
	at := len(t.stack) - 1
	for t.stack[at] != root {
		at--
	}
	members := t.stack[at:]
	in := make(map[*node]bool, len(members))
	for _, m := range members {
		m.onStack = false
		in[m.n] = true
	}
	if len(members) > 1 || slices.Contains(root.owners, root.n) {
		ring := make([]Member, 0, len(members))
		for _, m := range members {
			ring = append(ring, Member{Key: m.n.key(), Record: m.n.rec, Blocking: t.g.blockingWithin(m.n, in)})
		}
		t.rings = append(t.rings, ring)
	}
	t.stack = t.stack[:at]
}

// blockedOwners returns the waiting owners that an object certainly blocks, each as often as references say so.
func (g *Graph) blockedOwners(d *node) []*node {
	var owners []*node
	for i := range d.rec.References {
		if o := g.blockedOwner(d, &d.rec.References[i]); o != nil {
			owners = append(owners, o)
		}
	}
	return owners
}

// blockedOwner returns the waiting owner that a reference certainly blocks, or nil.
// A reference whose kind nobody serves is no part of a ring: nothing is cut on a
// guess.
func (g *Graph) blockedOwner(d *node, r *Reference) *node {
	if r.BlockOwnerDeletion != True {
		return nil
	}
	res, gk, _ := g.catalog.resolve(r.APIVersion, r.Kind)
	o := g.owner(r, res, gk, d.rec.Namespace)
	if o == nil || !o.rec.WaitingForDependents() {
		return nil
	}
	return o
}

func (g *Graph) blockingWithin(d *node, in map[*node]bool) []Reference {
	var refs []Reference
	for i := range d.rec.References {
		if o := g.blockedOwner(d, &d.rec.References[i]); o != nil && in[o] {
			refs = append(refs, d.rec.References[i])
		}
	}
	return refs
}

// CyclesAmong returns the rings among objects as live reads showed them, whatever
// the graph has of them.
func (g *Graph) CyclesAmong(objects map[schema.GroupResource][]*Record) [][]Member {
	among := New()
	among.catalog = g.Catalog()
	for gr, records := range objects {
		r := among.catalog.Resource(gr)
		if r == nil {
			continue
		}
		among.AddResource(gr, r.GroupKind(), time.Time{})
		for _, rec := range records {
			among.Upsert(gr, rec, time.Time{})
		}
	}
	return among.Cycles()
}
