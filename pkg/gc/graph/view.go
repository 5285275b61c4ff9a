package graph

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Coordinates say where an object is to be found. The version is left out:
// every served version of a kind shows the same object.
type Coordinates struct {
	Group     string
	Kind      string
	Namespace string // empty for a cluster-scoped kind
	Name      string
}

// Fact is what has been proved about a UID at some coordinates.
type Fact struct {
	State FactState
	// Seen is when a live read found the object; zero for the other states.
	Seen time.Time
	// Waiting is true if that read found it in foreground deletion.
	Waiting bool
}

// FactState tells one proof from another.
type FactState uint8

const (
	// Unproved: nothing is known.
	Unproved FactState = iota
	// Gone: a monitor of the resource showed a DELETED event for the UID at these
	// coordinates. Final.
	Gone
	// Absent: a live quorum read of these coordinates answered that resource's
	// NotFound, or another UID. Final.
	Absent
	// Present: a live quorum read found the UID at these coordinates. It grows old.
	Present
)

// Proved is true if the fact proves that the object does not exist.
func (f Fact) Proved() bool { return f.State == Gone || f.State == Absent }

// OwnerView is what the graph knows about one reference's owner.
type OwnerView struct {
	Reference Reference
	// Resource serves the reference's apiVersion and kind; nil if no server does.
	Resource *Resource
	// KindServed is true if the kind is served, in whatever version.
	KindServed bool
	// At is where the owner has to be for the reference to be right.
	At Coordinates
	// Observed is the owner as a monitor shows it at exactly that place; or nil.
	Observed *Record
	Fact     Fact
	// Elsewhere is true if an object with the UID, of that kind and name, is observed
	// in another namespace than the dependent's, where it can be nobody's owner here.
	Elsewhere bool
	// Orphaned is true if the owner is known to have been deleted on the terms that
	// its dependents stay. The graph leaves it to whoever asks.
	Orphaned bool
}

// View is everything that a decision about one object is made from.
type View struct {
	Key Key
	// Resource is what discovery says of the object's own resource; nil if it is
	// not served at the moment.
	Resource *Resource
	Record   *Record
	Owners   []OwnerView
	// HasDependents is true if any object names this one's UID.
	HasDependents bool
	// Unsure is true if no monitor shows the object any more and nobody has seen its
	// end.
	Unsure bool
	// Blocker is an object that this one, being in foreground deletion, has to wait
	// for; nil if there is none.
	Blocker *Dependent
	// WaitingSince is when the object was first known to be in foreground deletion.
	// The graph leaves it to whoever asks, with those below.
	WaitingSince time.Time
	// Deadline is when the foreground deletion is given up on, whatever blocks it; the
	// zero time for never.
	Deadline time.Time
	// Behind is true if the object's controller has not yet observed the object as it
	// was before it was deleted.
	Behind bool
	// Synced is true if every resource that can be read has been listed: a blocking
	// dependent would be known.
	Synced bool
}

// Dependent is an observed object, as a rule one that names another as its owner.
type Dependent struct {
	Key    Key
	Record *Record
}

// View returns what is known about an observed object; ok is false if no
// monitor shows it.
func (g *Graph) View(k Key) (v View, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n := g.observed(k)
	if n == nil {
		return View{}, false
	}
	v = g.view(k, n.rec)
	v.Unsure = n.unsure
	if n.rec.WaitingForDependents() {
		if b := g.blocker(n); b != nil {
			v.Blocker = &Dependent{Key: b.key(), Record: b.rec}
		}
	}
	return v, true
}

// Dependents returns the objects that name a UID, whatever else their references
// say.
func (g *Graph) Dependents(uid types.UID) []Dependent {
	g.mu.RLock()
	defer g.mu.RUnlock()
	nm := g.named[uid]
	if nm == nil {
		return nil
	}
	all := make([]Dependent, 0, len(nm.dependents))
	for d := range nm.dependents {
		all = append(all, Dependent{Key: d.key(), Record: d.rec})
	}
	return all
}

// Collecting returns the objects that have been deleted and stay for the collector:
// for their dependents to go, or to be orphaned. It takes time linear in all objects.
func (g *Graph) Collecting() []Dependent {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var all []Dependent
	for _, n := range g.nodes {
		for ; n != nil; n = n.twin {
			if n.rec.collecting() {
				all = append(all, Dependent{Key: n.key(), Record: n.rec})
			}
		}
	}
	return all
}

// ViewOf returns what is known about an object as a live read showed it, which
// may be newer than what the monitors have shown. It does not say what blocks an
// object in foreground deletion: View does, once a monitor has shown that.
func (g *Graph) ViewOf(gr schema.GroupResource, rec *Record) View {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.view(Key{Resource: gr, UID: rec.UID}, rec)
}

func (g *Graph) view(k Key, rec *Record) View {
	v := View{Key: k, Resource: g.catalog.Resource(k.Resource), Record: rec, HasDependents: g.named[rec.UID] != nil}
	if len(rec.References) > 0 {
		v.Owners = make([]OwnerView, len(rec.References))
		for i := range rec.References {
			v.Owners[i] = g.ownerView(&rec.References[i], rec.Namespace)
		}
	}
	return v
}

func (g *Graph) ownerView(r *Reference, namespace string) OwnerView {
	res, gk, served := g.catalog.resolve(r.APIVersion, r.Kind)
	o := OwnerView{
		Reference:  *r,
		Resource:   res,
		KindServed: served,
		At:         Coordinates{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: r.Name},
	}
	if res != nil && !res.Namespaced {
		o.At.Namespace = ""
	}
	if n := g.owner(r, res, gk, namespace); n != nil {
		o.Observed = n.rec
	} else if res != nil && res.Namespaced {
		for n := g.nodes[r.UID]; n != nil; n = n.twin {
			o.Elsewhere = o.Elsewhere || n.table.kind == gk && n.rec.Name == r.Name
		}
	}
	nm := g.named[r.UID]
	if nm == nil {
		return o
	}
	o.Fact = nm.facts[o.At]
	if !served && o.Fact.State == Unproved && namespace != "" {
		// The kind is gone, and with it the knowledge of its scope. What was
		// proved while it was served still stands.
		at := o.At
		at.Namespace = ""
		o.Fact = nm.facts[at]
	}
	return o
}

// Namespace returns the namespace of an observed object; empty if it has none or no
// monitor shows it.
func (g *Graph) Namespace(k Key) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if n := g.observed(k); n != nil {
		return n.rec.Namespace
	}
	return ""
}

// Stats counts what the graph holds.
type Stats struct {
	Nodes   int // observed objects
	Virtual int // UIDs that references name and no monitor shows
	Edges   int // references
}

// Stats returns the current counts.
func (g *Graph) Stats() Stats {
	g.mu.RLock()
	defer g.mu.RUnlock()
	s := Stats{Edges: g.edges}
	for _, t := range g.tables {
		s.Nodes += t.nodes
	}
	for uid := range g.named {
		if g.nodes[uid] == nil {
			s.Virtual++
		}
	}
	return s
}

// Count returns how many objects of a resource are observed.
func (g *Graph) Count(gr schema.GroupResource) int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if t := g.tables[gr]; t != nil {
		return t.nodes
	}
	return 0
}

// Versions returns the resourceVersion of every observed object of a resource.
func (g *Graph) Versions(gr schema.GroupResource) map[types.UID]string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	t := g.tables[gr]
	if t == nil {
		return nil
	}
	all := make(map[types.UID]string, t.nodes)
	for _, n := range g.nodesOf(t) {
		all[n.rec.UID] = n.rec.ResourceVersion
	}
	return all
}
