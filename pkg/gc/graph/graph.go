package graph

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Graph holds the observed objects and the references between them. All its
// methods may be called concurrently. Events (Upsert, Deleted and the like) are
// applied one at a time and bring the time with them; queries change nothing, and
// what they return is consistent in itself and does not change afterwards.
type Graph struct {
	// mu protects everything below.
	mu      sync.RWMutex
	catalog *Catalog
	// discovered is true once a catalog has been set.
	discovered bool
	tables     map[schema.GroupResource]*table
	nodes      map[types.UID]*node
	owners     map[types.UID]*ownership
	// nodesRoom and ownersRoom are those of the two maps.
	nodesRoom, ownersRoom room
	// collecting holds the objects that wait for the collector: those in foreground
	// deletion and those whose dependents are being orphaned.
	collecting map[*node]*Wait
	// terminating holds the other objects that have been deleted and are still there, for reports alone.
	terminating     map[*node]struct{}
	terminatingRoom room
	// losses holds when an object last lost a direct dependent. It is kept while any
	// object waits, since only a deadline asks for it.
	losses map[*node]time.Time
	// waitingChanged is true once an object in foreground deletion, or what such an
	// object names, has changed since TakeWaitingChanged.
	waitingChanged bool
	// syncedSince is since when every readable resource has been listed; the zero time if
	// one has not.
	syncedSince time.Time
	edges       int
}

// New returns an empty graph that knows no resource.
func New() *Graph {
	return &Graph{
		catalog:    NewCatalog(nil),
		tables:     make(map[schema.GroupResource]*table),
		nodes:      make(map[types.UID]*node),
		owners:     make(map[types.UID]*ownership),
		collecting: make(map[*node]*Wait),
		losses:     make(map[*node]time.Time),

		terminating: make(map[*node]struct{}),
	}
}

// Upsert records that a monitor shows an object. It returns the objects that need a new
// decision: the object itself, its dependents, or owners that it no longer blocks. Objects
// of a resource that was not announced are ignored.
//
// Its cost is one pass over the object's references, and work for those that have
// changed.
func (g *Graph) Upsert(gr schema.GroupResource, rec *Record, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.upsert(gr, rec, now)
}

// upsert is Upsert under the lock.
func (g *Graph) upsert(gr schema.GroupResource, rec *Record, now time.Time) []Key {
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var affected affected
	n := g.find(t, rec.UID)
	var old *Record
	if n == nil {
		n = &node{rec: rec, table: t}
		g.insert(n)
		g.link(n, rec.References, &affected)
		g.recount(rec.UID, &affected)
	} else {
		old = n.rec
		n.missing = false
		switch {
		case old.Namespace != rec.Namespace || old.Name != rec.Name:
			// No server changes these; what blocks what depends on them.
			g.unblock(n, old.References, &affected)
			n.rec = rec
			g.link(n, rec.References, &affected)
			g.unlist(n, old.References)
			g.recount(rec.UID, &affected)
		default:
			before, after := differing(old.References, rec.References)
			n.rec = rec
			g.link(n, after, &affected)
			g.unlink(n, before, &affected)
		}
	}
	g.noteWait(n, old, now)
	g.noteTerminating(n)
	if rec.Deleting && (old == nil || !old.Deleting) {
		g.noteLoss(rec, elapsed(rec.DeletedAt, now))
	}
	g.forgetRefuted(n)

	different := changed(old, rec)
	switch {
	case rec.collecting() && (different || old.ResourceVersion != rec.ResourceVersion):
		// Even if it looks the same: the events between may have been lost, and with
		// them the end of one deletion and the beginning of another.
		affected.add(n)
	case different && len(rec.References) > 0 && !g.ownersSolid(n):
		affected.add(n)
	}
	if o := g.owners[rec.UID]; o != nil && (old == nil || old.WaitingForDependents() != rec.WaitingForDependents()) {
		for d := range o.dependents.all {
			if d != n && !g.ownersSolid(d) {
				affected.add(d)
			}
		}
	}
	return affected.all(g)
}

// changed tells whether an update can change what is decided about the object itself.
func changed(old, rec *Record) bool {
	return old == nil ||
		old.Deleting != rec.Deleting || old.Foreground != rec.Foreground || old.Orphan != rec.Orphan ||
		!sameReferences(old.References, rec.References)
}

// Deleted records proof that an object is gone: a watch DELETED event, or a live
// read. It returns the objects that named its UID, and the waiting owners that nothing
// blocks any more.
func (g *Graph) Deleted(gr schema.GroupResource, rec *Record, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var affected affected
	if n := g.find(t, rec.UID); n != nil {
		g.noteLoss(n.rec, now)
		g.remove(n, &affected)
	}
	at := Coordinates{Group: t.kind.Group, Kind: t.kind.Kind, Namespace: rec.Namespace, Name: rec.Name}
	if o := g.owners[rec.UID]; o != nil {
		if !g.shows(rec.UID, at) {
			o.learn(at, Fact{State: Gone})
		}
		affected.addAll(&o.dependents)
	}
	return affected.all(g)
}

// Vanished records that an object which was shown is missing from a list, or
// that its name shows another UID. That proves nothing: the object counts as
// observed until Confirm or Deleted is called after a live read. It returns the
// object, for that read; one that names nothing, that nothing names and that waits for
// nothing is forgotten at once.
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
	var affected affected
	g.vanish(n, &affected)
	return affected.all(g)
}

// vanish is Vanished under the lock.
func (g *Graph) vanish(n *node, affected *affected) {
	if len(n.rec.References) == 0 && g.owners[n.rec.UID] == nil && !n.rec.collecting() {
		g.remove(n, affected)
		return
	}
	n.missing = true
	affected.add(n)
}

// VanishedExcept records that a new monitor of a resource has shown all its objects.
// shown returns true for those; all others that the graph has of the resource have
// vanished.
func (g *Graph) VanishedExcept(gr schema.GroupResource, shown func(types.UID) bool) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var affected affected
	for _, n := range g.nodesOf(t) {
		if !n.missing && !shown(n.rec.UID) {
			g.vanish(n, &affected)
		}
	}
	return affected.all(g)
}

// Confirm records that a live read found an object that had vanished. If a
// monitor has shown it again in the meantime, that is newer and stays.
func (g *Graph) Confirm(k Key, rec *Record, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.observed(k); n == nil || !n.missing {
		return nil
	}
	return g.upsert(k.Resource, rec, now)
}

// ownersSolid is true when every owner of the node is observed, where the reference
// says, and does not wait for its dependents: then there is nothing to decide. An
// object with many references is not searched: deciding about it in vain costs its own
// namespace a turn, and searching it would cost everybody.
func (g *Graph) ownersSolid(n *node) bool {
	if len(n.rec.References) > searchedReferences {
		return false
	}
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

// searchedReferences is the largest number of references that ownersSolid searches.
const searchedReferences = 64

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

// affected collects the objects that need a new decision after an event.
type affected struct {
	keys []Key
	// released are waiting owners whose count of blocking references has become 0; it
	// may have grown again since.
	released []*node
}

func (a *affected) add(n *node) { a.keys = append(a.keys, n.key()) }

func (a *affected) addAll(s *nodeSet) {
	for n := range s.all {
		a.add(n)
	}
}

// all returns the objects, some perhaps twice.
func (a *affected) all(g *Graph) []Key {
	for _, o := range a.released {
		if o.blocking == 0 && o.rec.WaitingForDependents() && g.find(o.table, o.rec.UID) == o {
			a.add(o)
		}
	}
	return a.keys
}
