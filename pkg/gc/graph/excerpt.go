package graph

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Contents says which objects are deleted with an object without naming it as their owner:
// everything in a namespace, or everything of a resource. The zero value is nothing.
type Contents struct {
	Namespace string
	Resource  schema.GroupResource
}

// Excerpt is a copy of a part of a graph. It belongs to whoever has asked for it.
type Excerpt struct {
	*Graph
	// Reached holds the objects that are copied with all that depends on them. The graph
	// holds their other owners too, without these owners' own references.
	Reached []Key
}

// Excerpt copies what the end of some objects can reach: every object that names one of
// them, directly or through others; the contents of an object, and every object that names
// those; and the owners in foreground deletion that any of these objects may block, with
// everything that names them. The facts about other owners are copied too.
//
// contents says what an object contains. It is called without a lock.
//
// The graph is read in pieces, and events are taken in between: each piece holds them up
// for about as long as a thousand references take to be read. An object that changes
// meanwhile is copied as it was before or after that.
func (g *Graph) Excerpt(from []Key, contents func(Node) Contents) *Excerpt {
	x := &excerpt{
		from: g, to: New(), contents: contents,
		reached: map[types.UID]bool{}, beside: map[types.UID]bool{}, namespaces: map[string]bool{}, resources: map[schema.GroupResource]bool{},
	}
	g.mu.RLock()
	x.begin()
	for _, k := range from {
		if g.observed(k) != nil {
			x.reach(k.UID)
		}
	}
	for {
		for len(x.next) > 0 {
			uid := x.next[0]
			x.next = x.next[1:]
			x.take(uid)
		}
		x.breathe()
		if len(x.next) > 0 {
			continue
		}
		if !x.open() {
			break
		}
		x.takeContents()
	}
	g.mu.RUnlock()
	for uid, o := range x.to.owners {
		if o.dependents.len() == 0 { // it has lost them since its facts were copied
			delete(x.to.owners, uid)
		}
		o.boundFacts() // fewer references may name it here
	}
	return &Excerpt{Graph: x.to, Reached: x.keys}
}

// Lists reports whether the copied graph had been shown all objects of a resource.
func (x *Excerpt) Lists(gr schema.GroupResource) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t := x.tables[gr]
	return t != nil && t.listed && !t.unreadable && !t.suspended
}

// AssumeListed treats every resource as listed: an object that is not in the excerpt then
// does not exist.
func (x *Excerpt) AssumeListed(now time.Time) {
	for _, r := range x.catalog.resources {
		if r.Monitored {
			x.AddResource(r.GroupResource(), r.GroupKind(), now)
		}
	}
	for _, t := range x.tables {
		t.listed = true
	}
	x.noteListing(now)
}

// excerptPiece is the number of references and objects that are read before events have their turn.
const excerptPiece = 1000

type excerpt struct {
	from, to *Graph
	contents func(Node) Contents
	reached  map[types.UID]bool // or about to be
	beside   map[types.UID]bool // copied as owners of what is reached
	next     []types.UID
	keys     []Key
	// found holds what has been read in this piece and not yet been copied, and done how much
	// work it was.
	found []foundNode
	done  int
	// namespaces and resources are what reached objects contain; true: to be searched for.
	namespaces map[string]bool
	resources  map[schema.GroupResource]bool
}

// foundNode is a node, as it was read; or facts about a UID.
type foundNode struct {
	at      schema.GroupResource
	rec     *Record // nil for facts
	missing bool
	wait    *Wait
	loss    time.Time
	reached bool
	uid     types.UID
	facts   factSet
}

// begin copies what all nodes share.
func (x *excerpt) begin() {
	x.to.catalog, x.to.discovered, x.to.waitingChanged = x.from.catalog, x.from.discovered, true
	for gr, t := range x.from.tables {
		empty := *t
		empty.nodes = 0
		x.to.tables[gr] = &empty
	}
	x.to.syncedSince = x.from.syncedSince
}

func (x *excerpt) reach(uid types.UID) {
	if !x.reached[uid] {
		x.reached[uid] = true
		x.next = append(x.next, uid)
	}
}

// work notes that something was read, and lets events have their turn in time. What was
// read before may have changed when it returns.
func (x *excerpt) work() {
	if x.done++; x.done >= excerptPiece {
		x.breathe()
	}
}

// breathe lets events have their turn, and copies meanwhile what has been found.
func (x *excerpt) breathe() {
	x.from.mu.RUnlock()
	x.done = 0
	for _, f := range x.found {
		x.copy(f)
	}
	x.found = x.found[:0]
	x.from.mu.RLock()
}

// take reads everything about a UID that is reached.
func (x *excerpt) take(uid types.UID) {
	for n := x.from.nodes[uid]; n != nil; n = n.twin {
		rec := n.rec
		for i := range rec.References {
			x.takeOwner(rec.References[i].UID)
			x.work()
		}
		x.find(n, true)
	}
	o := x.from.owners[uid]
	if o == nil {
		return
	}
	x.takeFacts(uid)
	for d := range o.dependents.all {
		x.reach(d.rec.UID)
		if o.dependents.many != nil { // the others are few, and may change place
			x.work()
		}
	}
}

// takeOwner reads an owner of an object that is reached. It is reached too if it waits
// for that object.
func (x *excerpt) takeOwner(uid types.UID) {
	if x.beside[uid] || x.reached[uid] {
		return
	}
	for n := x.from.nodes[uid]; n != nil; n = n.twin {
		if n.rec.WaitingForDependents() {
			x.reach(uid)
			return
		}
	}
	x.beside[uid] = true
	x.takeFacts(uid)
	for n := x.from.nodes[uid]; n != nil; n = n.twin {
		x.find(n, false)
	}
}

func (x *excerpt) takeFacts(uid types.UID) {
	if o := x.from.owners[uid]; o != nil && o.facts.len() > 0 {
		x.found = append(x.found, foundNode{uid: uid, facts: o.facts.clone()})
	}
}

// find notes a node for the copy.
func (x *excerpt) find(n *node, reached bool) {
	f := foundNode{at: n.table.resource, rec: n.rec, missing: n.missing, loss: x.from.losses[n], reached: reached}
	if w := x.from.collecting[n]; w != nil {
		copied := *w
		f.wait = &copied
	}
	if !reached && len(n.rec.References) > 0 {
		alone := *n.rec
		alone.References = nil
		f.rec = &alone
	}
	x.found = append(x.found, f)
}

// copy enters into the copy what was read.
func (x *excerpt) copy(f foundNode) {
	if f.rec == nil {
		// Kept until something that names the UID has been copied.
		o := x.to.owners[f.uid]
		if o == nil {
			o = &ownership{}
			x.to.owners[f.uid] = o
		}
		o.facts = f.facts
		return
	}
	t := x.to.tables[f.at]
	if t == nil {
		return // its resource has been announced since the excerpt began
	}
	x.to.upsert(f.at, f.rec, time.Time{})
	n := x.to.find(t, f.rec.UID)
	n.missing = f.missing
	if f.wait != nil && x.to.collecting[n] != nil {
		*x.to.collecting[n] = *f.wait
	}
	if !f.loss.IsZero() {
		x.to.losses[n] = f.loss
	}
	if !f.reached {
		return
	}
	x.keys = append(x.keys, n.key())
	c := x.contents(n.outside())
	if _, known := x.namespaces[c.Namespace]; c.Namespace != "" && !known {
		x.namespaces[c.Namespace] = true
	}
	if _, known := x.resources[c.Resource]; c.Resource.Resource != "" && !known {
		x.resources[c.Resource] = true
	}
}

// open is true if there are contents to be searched for.
func (x *excerpt) open() bool {
	for _, search := range x.namespaces {
		if search {
			return true
		}
	}
	for _, search := range x.resources {
		if search {
			return true
		}
	}
	return false
}

// takeContents reaches the objects in the namespaces and of the resources that are to be
// searched for, in one pass over all objects.
func (x *excerpt) takeContents() {
	for _, first := range x.from.nodes {
		for n := first; n != nil; n = n.twin {
			if x.namespaces[n.rec.Namespace] || x.resources[n.table.resource] {
				x.reach(n.rec.UID)
			}
		}
		x.work()
	}
	for namespace := range x.namespaces {
		x.namespaces[namespace] = false
	}
	for gr := range x.resources {
		x.resources[gr] = false
	}
}
