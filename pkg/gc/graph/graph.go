package graph

import (
	"slices"
	"sync"
	"time"

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
	// unsure is true while the monitor does not show the object any more and nobody
	// has seen its end. It counts as observed until a live read tells.
	unsure bool
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
	// suspended is true while the resource is not served and its objects may exist.
	suspended  bool
	unreadable bool
	listed     time.Time
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
	// waiting holds the objects in foreground deletion, and since when they have
	// been known to be; the zero time until somebody has asked.
	waiting map[*node]time.Time
	// progress counts, for objects in foreground deletion, how often descendants have
	// been found to have been deleted or to have gone.
	progress map[*node]uint64
	// lost holds the objects of which a dependent has been deleted or has gone since
	// that was last carried up to all above them.
	lost map[*node]struct{}
	// waitingChanged is true once anything about those has changed.
	waitingChanged bool
	edges          int
}

// New returns an empty graph that knows no resource.
func New() *Graph {
	return &Graph{
		catalog:  NewCatalog(nil),
		tables:   make(map[schema.GroupResource]*table),
		nodes:    make(map[types.UID]*node),
		named:    make(map[types.UID]*named),
		waiting:  make(map[*node]time.Time),
		progress: make(map[*node]uint64),
		lost:     make(map[*node]struct{}),
	}
}

// SetCatalog replaces what is known of the served kinds. It returns the objects
// whose references may be judged otherwise now.
func (g *Graph) SetCatalog(c *Catalog, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.catalog = c
	g.waitingChanged = true
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
	for n := range g.waiting {
		look = append(look, n.key()) // what blocks it may be judged otherwise too
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
// version takes over the nodes of the old one. A resource whose kind has changed
// has to be removed first.
func (g *Graph) AddResource(gr schema.GroupResource, gk schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.suspended, t.listed = false, time.Time{}
	} else {
		g.tables[gr] = &table{resource: gr, kind: gk}
	}
}

// Listed records that everything that there was of a resource has been shown.
func (g *Graph) Listed(gr schema.GroupResource, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.listed = now
	}
}

// SetReadable records whether a resource can be listed and watched.
func (g *Graph) SetReadable(gr schema.GroupResource, readable bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.unreadable = !readable
	}
}

// Synced returns since when every readable resource has been listed; false if one has not.
func (g *Graph) Synced() (since time.Time, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, r := range g.catalog.resources {
		t := g.tables[r.GroupResource()]
		switch {
		case !r.Monitored:
		case t == nil:
			return time.Time{}, false
		case t.unreadable:
		case t.listed.IsZero():
			return time.Time{}, false
		case t.listed.After(since):
			since = t.listed
		}
	}
	return since, len(g.catalog.resources) > 0
}

// Suspend records that a resource is no longer served though its objects may exist. Its nodes
// stay, until AddResource announces the resource again or RemoveResource drops them.
func (g *Graph) Suspend(gr schema.GroupResource, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[gr]; t != nil {
		t.suspended = true
	}
}

// Suspended returns how many objects each suspended resource has.
func (g *Graph) Suspended() map[schema.GroupResource]int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := map[schema.GroupResource]int{}
	for gr, t := range g.tables {
		if t.suspended {
			all[gr] = t.nodes
		}
	}
	return all
}

// ForgetFacts drops what has been proved about objects of a kind: the server that answered for
// it has begun anew. It returns the objects that name one.
func (g *Graph) ForgetFacts(gk schema.GroupKind) []Key { return nil }

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
	g.carryProgress() // as long as there is a way up
	gone := g.nodesOf(t)
	for _, n := range gone {
		g.remove(n)
	}
	delete(g.tables, gr)
	var look []Key
	for _, n := range gone {
		look = append(look, g.dependentKeys(n.rec.UID)...)
		look = append(look, g.unblocked(n.rec.References, nil)...)
	}
	return look
}

// Upsert records that a monitor shows an object. It returns the objects that this
// gives a reason to look at: the object itself, or its dependents. Objects of a
// resource that was not announced are ignored.
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
	n := g.find(t, rec.UID)
	var old *Record
	if n == nil {
		n = &node{rec: rec, table: t, twin: g.nodes[rec.UID]}
		g.nodes[rec.UID] = n
		t.nodes++
		g.link(n)
	} else {
		old = n.rec
		if !slices.Equal(old.References, rec.References) {
			g.carryProgress() // the way that there was up to now
		}
		n.rec = rec
		n.unsure = false
		g.link(n)
		g.unlink(n, old.References)
	}
	g.noteWaiting(n)
	if old != nil && !old.Deleting && rec.Deleting {
		g.noteProgress(rec)
	}

	var look []Key
	switch {
	case rec.collecting() && (changed(old, rec) || old.ResourceVersion != rec.ResourceVersion):
		// Even if it looks the same: the events between may have been lost, and with
		// them the end of one deletion and the beginning of another.
		look = append(look, n.key())
	case changed(old, rec) && len(rec.References) > 0 && !g.settled(n):
		look = append(look, n.key())
	}
	if old != nil {
		look = append(look, g.unblocked(old.References, rec.References)...)
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

// noteWaiting keeps the list of objects in foreground deletion.
func (g *Graph) noteWaiting(n *node) {
	_, noted := g.waiting[n]
	switch {
	case n.rec.WaitingForDependents():
		g.waitingChanged = true
		if !noted {
			g.waiting[n] = time.Time{}
		}
	case noted:
		g.waitingChanged = true
		delete(g.waiting, n)
		delete(g.progress, n)
	}
}

// unblocked returns the waiting owners that references before blocked and
// references after do not.
func (g *Graph) unblocked(before, after []Reference) []Key {
	var look []Key
	for _, r := range before {
		if r.BlockOwnerDeletion != True || slices.Contains(after, r) {
			continue
		}
		for o := g.nodes[r.UID]; o != nil; o = o.twin {
			if o.rec.WaitingForDependents() {
				look = append(look, o.key())
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

// Deleted records proof that an object is gone: a watch DELETED event, or a live
// read of an object that had vanished. It returns the objects that named its UID,
// and the waiting owners that it blocked.
func (g *Graph) Deleted(gr schema.GroupResource, rec *Record, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var look []Key
	if n := g.find(t, rec.UID); n != nil {
		g.remove(n)
		g.noteProgress(n.rec)
		look = g.unblocked(n.rec.References, nil)
	}
	at := Coordinates{Group: t.kind.Group, Kind: t.kind.Kind, Namespace: rec.Namespace, Name: rec.Name}
	if nm := g.named[rec.UID]; nm != nil && !g.shows(rec.UID, at) {
		nm.learn(at, Fact{State: Gone})
	}
	return append(look, g.dependentKeys(rec.UID)...)
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
	return g.vanished(n)
}

// vanished is Vanished under the lock.
func (g *Graph) vanished(n *node) []Key {
	if len(n.rec.References) == 0 && g.named[n.rec.UID] == nil && !n.rec.collecting() {
		g.remove(n)
		return nil
	}
	n.unsure = true
	return []Key{n.key()}
}

// Confirm records that a live read found an object that had vanished. If a
// monitor has shown it again in the meantime, that is newer and stays.
func (g *Graph) Confirm(k Key, rec *Record, now time.Time) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.observed(k); n == nil || !n.unsure {
		return nil
	}
	return g.upsert(k.Resource, rec, now)
}

// VanishedExcept records that a new monitor of a resource has shown all there is,
// which is what shown returns true for: whatever else the graph has of it has
// vanished.
func (g *Graph) VanishedExcept(gr schema.GroupResource, shown func(types.UID) bool) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	var look []Key
	for _, n := range g.nodesOf(t) {
		if !n.unsure && !shown(n.rec.UID) {
			look = append(look, g.vanished(n)...)
		}
	}
	return look
}

// Learn records what a live read proved about coordinates that references to uid
// declare. It has no effect when nothing names the UID any more. Absence is not
// believed of an object that a monitor shows at that place: the monitor has the
// last word, and a DELETED event will come if it lags.
func (g *Graph) Learn(uid types.UID, at Coordinates, f Fact) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Proved() && g.shows(uid, at) {
		return
	}
	if nm := g.named[uid]; nm != nil {
		nm.learn(at, f)
	}
}

// shows is true if some resource shows an object with the UID at that place: two
// resources can serve one kind.
func (g *Graph) shows(uid types.UID, at Coordinates) bool {
	for n := g.nodes[uid]; n != nil; n = n.twin {
		if n.coordinates() == at {
			return true
		}
	}
	return false
}

// maxFacts bounds what is remembered of one UID. References that are written again and
// again, each time with other coordinates, would make it grow for ever.
const maxFacts = 64

// learn is Learn under the lock.
func (nm *named) learn(at Coordinates, f Fact) {
	if nm.facts == nil {
		nm.facts = make(map[Coordinates]Fact, 1)
	}
	// Answers arrive in any order. What has been proved gone does not come back, Gone
	// outlives the kind and Absent does not, and an older sight does not replace a
	// newer one.
	known := nm.facts[at]
	if known.State == Gone || f.State == Present && (known.Proved() || known.Seen.After(f.Seen)) {
		return
	}
	if known.State == Unproved && len(nm.facts) >= maxFacts {
		nm.forgetOne()
	}
	nm.facts[at] = f
}

// forgetOne drops what another live read can find out again.
func (nm *named) forgetOne() {
	for at, f := range nm.facts {
		if f.State != Gone {
			delete(nm.facts, at)
			return
		}
	}
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

// nodesOf returns all observed objects of a resource.
func (g *Graph) nodesOf(t *table) []*node {
	all := make([]*node, 0, t.nodes)
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			if n.table == t {
				all = append(all, n)
			}
		}
	}
	return all
}

// remove takes a node and its references out of the graph.
func (g *Graph) remove(n *node) {
	n.table.nodes--
	delete(g.waiting, n)
	delete(g.progress, n)
	delete(g.lost, n)
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

// WaitingSince returns when it was first asked about an object in foreground
// deletion, which is now if it never was; the zero time if it is not in foreground
// deletion.
func (g *Graph) WaitingSince(k Key, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.observed(k)
	if n == nil {
		return time.Time{}
	}
	since, waits := g.waiting[n]
	if waits && since.IsZero() {
		since = now
		g.waiting[n] = since
	}
	return since
}

// blocker returns an object that an owner in foreground deletion has to wait for,
// or nil. It stops at the first: with Go's random order of maps, looking again
// each time one has gone costs O(n log n) for all n of an owner.
func (g *Graph) blocker(o *node) *node {
	nm := g.named[o.rec.UID]
	if nm == nil {
		return nil
	}
	for d := range nm.dependents {
		if g.blocks(d, o) {
			return d
		}
	}
	return nil
}

// blocks is true if one of the dependent's references makes the owner wait: it
// says so, and names the owner by its own kind, name and namespace. A reference
// whose kind nobody serves may be right, and blocks.
func (g *Graph) blocks(d, o *node) bool {
	for i := range d.rec.References {
		r := &d.rec.References[i]
		if r.UID != o.rec.UID || r.BlockOwnerDeletion != True {
			continue
		}
		res, gk, _ := g.catalog.resolve(r.APIVersion, r.Kind)
		if res == nil {
			return true
		}
		if o.rec.Namespace != "" && o.rec.Namespace != d.rec.Namespace {
			continue
		}
		// Under each resource that shows the object it may have another kind.
		for n := g.nodes[o.rec.UID]; n != nil; n = n.twin {
			if gk == n.table.kind && r.Name == n.rec.Name {
				return true
			}
		}
	}
	return false
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
