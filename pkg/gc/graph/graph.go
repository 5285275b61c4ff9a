package graph

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Key names one observed object. It is comparable and stays valid, as a name,
// after the object has gone.
type Key struct {
	Resource schema.GroupResource
	UID      types.UID
}

// node is one observed object. It is reachable through Graph.nodes alone.
type node struct {
	rec   *Record
	table *table
	// twin is the next observed object with the same UID, shown by another
	// resource; nearly always nil.
	twin *node
}

func (n *node) key() Key { return Key{Resource: n.table.resource, UID: n.rec.UID} }

func (n *node) coordinates() Coordinates {
	return Coordinates{Group: n.table.kind.Group, Kind: n.table.kind.Kind, Namespace: n.rec.Namespace, Name: n.rec.Name}
}

// table is what the nodes of one monitored resource have in common.
type table struct {
	resource schema.GroupResource
	kind     schema.GroupKind
	nodes    int
}

// named is what is known of a UID because references name it: a virtual node, as
// long as no observed object has the UID. It lives while it has dependents.
type named struct {
	dependents map[*node]struct{}
	facts      map[Coordinates]Fact
}

// Graph holds the observed objects and the references between them. All its
// methods may be called concurrently; changes are applied one at a time, and what
// a query returns is consistent in itself and does not change afterwards.
type Graph struct {
	// mu protects everything below.
	mu      sync.RWMutex
	catalog *Catalog
	tables  map[schema.GroupResource]*table
	nodes   map[types.UID]*node
	named   map[types.UID]*named
	edges   int
}

// New returns an empty graph that knows no resource.
func New() *Graph {
	return &Graph{
		catalog: NewCatalog(nil),
		tables:  make(map[schema.GroupResource]*table),
		nodes:   make(map[types.UID]*node),
		named:   make(map[types.UID]*named),
	}
}

// SetCatalog replaces what is known of the served kinds. It returns the objects
// whose references may be judged otherwise now.
func (g *Graph) SetCatalog(c *Catalog) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.catalog = c
	var look []Key
	seen := make(map[*node]struct{})
	for _, nm := range g.named {
		for d := range nm.dependents {
			if _, done := seen[d]; done {
				continue
			}
			seen[d] = struct{}{}
			if !g.settled(d) {
				look = append(look, d.key())
			}
		}
	}
	return look
}

// Catalog returns the current catalog.
func (g *Graph) Catalog() *Catalog {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.catalog
}

// AddResource announces a resource whose objects will be shown from now on. A
// second call for the same resource changes nothing: the new monitor of a changed
// version takes over the nodes of the old one.
func (g *Graph) AddResource(gr schema.GroupResource, gk schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tables[gr] == nil {
		g.tables[gr] = &table{resource: gr, kind: gk}
	}
}

// RemoveResource drops all nodes of a resource that is no longer monitored. It
// leaves no Fact: the objects are neither present nor absent now. It returns the
// objects that named one of them.
func (g *Graph) RemoveResource(gr schema.GroupResource) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var gone []*node
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			if n.table == t {
				gone = append(gone, n)
			}
		}
	}
	for _, n := range gone {
		g.remove(n)
	}
	delete(g.tables, gr)
	var look []Key
	for _, n := range gone {
		look = append(look, g.dependentKeys(n.rec.UID)...)
	}
	return look
}

// Upsert records that a monitor shows an object. It returns the objects that this
// gives a reason to look at: the object itself, or its dependents. Objects of a
// resource that was not announced are ignored.
func (g *Graph) Upsert(gr schema.GroupResource, rec *Record) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	n := g.find(t, rec.UID)
	var old *Record
	if n == nil {
		n = &node{rec: rec, table: t, twin: g.nodes[rec.UID]}
		g.nodes[rec.UID] = n
		t.nodes++
		g.link(n)
	} else {
		old = n.rec
		n.rec = rec
		g.link(n)
		g.unlink(n, old.References)
	}

	var look []Key
	if changed(old, rec) && len(rec.References) > 0 && !g.settled(n) {
		look = append(look, n.key())
	}
	if nm := g.named[rec.UID]; nm != nil {
		delete(nm.facts, n.coordinates())
		if old == nil || old.WaitingForDependents() != rec.WaitingForDependents() {
			for d := range nm.dependents {
				if d != n && !g.settled(d) {
					look = append(look, d.key())
				}
			}
		}
	}
	return look
}

// changed tells whether an update can change what the collector decides about
// the object itself.
func changed(old, rec *Record) bool {
	return old == nil ||
		old.Deleting != rec.Deleting || old.Foreground != rec.Foreground || old.Orphan != rec.Orphan ||
		!slices.Equal(old.References, rec.References)
}

// Deleted records a watch DELETED event: proof that the object is gone. It
// returns the objects that named its UID.
func (g *Graph) Deleted(gr schema.GroupResource, rec *Record) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	if n := g.find(t, rec.UID); n != nil {
		g.remove(n)
	}
	if nm := g.named[rec.UID]; nm != nil {
		at := Coordinates{Group: t.kind.Group, Kind: t.kind.Kind, Namespace: rec.Namespace, Name: rec.Name}
		nm.learn(at, Fact{State: Gone})
	}
	return g.dependentKeys(rec.UID)
}

// Vanished records that an object which was shown is missing from a list, or
// that its name shows another UID. That proves nothing: the node goes, no Fact
// comes, and the objects that named it are returned for a closer look.
func (g *Graph) Vanished(gr schema.GroupResource, uid types.UID) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	n := g.find(t, uid)
	if n == nil {
		return nil
	}
	g.remove(n)
	return g.dependentKeys(uid)
}

// Learn records what a live read proved about coordinates that references to uid
// declare. It has no effect when nothing names the UID any more, or when a monitor
// shows the object at that place: then the monitor has the last word, and a
// DELETED event will come if it lags.
func (g *Graph) Learn(uid types.UID, at Coordinates, f Fact) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := g.nodes[uid]; n != nil; n = n.twin {
		if n.coordinates() == at {
			return
		}
	}
	if nm := g.named[uid]; nm != nil {
		nm.learn(at, f)
	}
}

// learn is Learn under the lock.
func (nm *named) learn(at Coordinates, f Fact) {
	if nm.facts == nil {
		nm.facts = make(map[Coordinates]Fact, 1)
	}
	nm.facts[at] = f
}

// find returns the node of a resource's object, or nil.
func (g *Graph) find(t *table, uid types.UID) *node {
	for n := g.nodes[uid]; n != nil; n = n.twin {
		if n.table == t {
			return n
		}
	}
	return nil
}

// remove takes a node and its references out of the graph.
func (g *Graph) remove(n *node) {
	n.table.nodes--
	uid := n.rec.UID
	switch first := g.nodes[uid]; {
	case first == n && n.twin == nil:
		delete(g.nodes, uid)
	case first == n:
		g.nodes[uid] = n.twin
	default:
		for p := first; p != nil; p = p.twin {
			if p.twin == n {
				p.twin = n.twin
				break
			}
		}
	}
	g.unlink(n, n.rec.References)
}

// link enters a node with every UID that its references name.
func (g *Graph) link(n *node) {
	for i := range n.rec.References {
		uid := n.rec.References[i].UID
		nm := g.named[uid]
		if nm == nil {
			nm = &named{dependents: make(map[*node]struct{}, 1)}
			g.named[uid] = nm
		}
		nm.dependents[n] = struct{}{}
	}
	g.edges += len(n.rec.References)
}

// unlink undoes link for the references that a node had before. A UID that the
// node still names stays entered, and so does what is known of it; what is known
// goes with the last reference to the UID, which bounds the facts.
func (g *Graph) unlink(n *node, before []Reference) {
	for i := range before {
		uid := before[i].UID
		nm := g.named[uid]
		if nm == nil || g.observes(n) && names(n.rec, uid) {
			continue
		}
		delete(nm.dependents, n)
		if len(nm.dependents) == 0 {
			delete(g.named, uid)
		}
	}
	g.edges -= len(before)
}

// observes is true while the node is in the graph.
func (g *Graph) observes(n *node) bool { return g.find(n.table, n.rec.UID) == n }

func names(r *Record, uid types.UID) bool {
	return slices.ContainsFunc(r.References, func(ref Reference) bool { return ref.UID == uid })
}

// settled is true when every owner of the node is observed, where the reference
// says, and does not wait for its dependents: then there is nothing to decide.
func (g *Graph) settled(n *node) bool {
	for i := range n.rec.References {
		r := &n.rec.References[i]
		res, gk, _ := g.catalog.resolve(r.APIVersion, r.Kind)
		o := g.owner(r, res, gk, n.rec.Namespace)
		if o == nil || o.rec.WaitingForDependents() {
			return false
		}
	}
	return true
}

// owner returns the observed object that a reference names by UID and by its own
// coordinates, or nil. A namespaced owner must live in its dependent's namespace.
func (g *Graph) owner(r *Reference, res *Resource, gk schema.GroupKind, namespace string) *node {
	if res == nil {
		return nil
	}
	if !res.Namespaced {
		namespace = ""
	}
	for n := g.nodes[r.UID]; n != nil; n = n.twin {
		if n.table.kind == gk && n.rec.Name == r.Name && n.rec.Namespace == namespace {
			return n
		}
	}
	return nil
}

func (g *Graph) dependentKeys(uid types.UID) []Key {
	nm := g.named[uid]
	if nm == nil {
		return nil
	}
	keys := make([]Key, 0, len(nm.dependents))
	for d := range nm.dependents {
		keys = append(keys, d.key())
	}
	return keys
}
