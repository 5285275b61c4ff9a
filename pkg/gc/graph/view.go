package graph

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

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
	// Orphaned is true if the owner is known to have been deleted with propagation
	// policy Orphan. The graph does not set it; callers do.
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
	// Missing is true if no monitor shows the object any more and nobody has seen its
	// end.
	Missing bool
	// Blocking counts the references that an object in foreground deletion waits for;
	// Wait says for how long it has, and SyncedSince since when every resource that can
	// be read has been listed, so that a blocking dependent would be known: the zero time
	// if that is not so. All are zero for other objects.
	Blocking    int
	Wait        Wait
	SyncedSince time.Time
	// Survey counts the objects below this one. It is nil until somebody has called
	// Graph.Survey, which takes long.
	Survey *Survey
	// Behind is true if a live read has shown that the object's controller has not yet
	// observed the object as it was before it was deleted. Whoever reads sets it.
	Behind bool
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
	v.Missing = n.missing
	if w := g.collecting[n]; w != nil && n.rec.WaitingForDependents() {
		v.Blocking, v.Wait, v.SyncedSince = int(n.blocking), *w, g.syncedSince
	}
	return v, true
}

// Dependents returns the objects that name a UID, whatever else their references
// say.
func (g *Graph) Dependents(uid types.UID) []Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o := g.owners[uid]
	if o == nil {
		return nil
	}
	all := make([]Node, 0, o.dependents.len())
	for d := range o.dependents.all {
		all = append(all, d.outside())
	}
	return all
}

// IsOwner is true if any object names a UID, whatever else its references say.
func (g *Graph) IsOwner(uid types.UID) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.owners[uid] != nil
}

// namespacePiece is the number of objects after which InNamespace lets events in.
const namespacePiece = 10_000

// InNamespace yields the observed objects of a namespace, in no order. It looks at every object of the graph, and lets
// events in now and then: an object that comes or goes meanwhile may be yielded or not. yield must not call the graph.
func (g *Graph) InNamespace(namespace string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		g.mu.RLock()
		defer g.mu.RUnlock()
		looked := 0
		for _, first := range g.nodes {
			for n := first; n != nil; n = n.twin {
				if n.rec.Namespace == namespace && !yield(n.outside()) {
					return
				}
			}
			if looked++; looked%namespacePiece == 0 {
				g.mu.RUnlock()
				g.mu.RLock()
			}
		}
	}
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
	v := View{Key: k, Resource: g.catalog.Resource(k.Resource), Record: rec, HasDependents: g.owners[rec.UID] != nil}
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
	held := g.owners[r.UID]
	if held == nil || held.facts.len() == 0 {
		return o
	}
	o.Fact = held.known(o.At)
	if !served && o.Fact.State == Unproved && namespace != "" {
		// The kind is gone, and with it the knowledge of its scope. What was
		// proved while it was served still stands.
		at := o.At
		at.Namespace = ""
		o.Fact = held.known(at)
	}
	return o
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
	for uid := range g.owners {
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
