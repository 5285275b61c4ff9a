// Package relink finds the intended owners of dangling references: after a restore or a copy, an owner has the
// coordinates that its dependents name, but another UID.
//
// It does no I/O and reads no clock.
package relink

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

// Input is the input of Find.
type Input struct {
	Graph *graph.Graph
	// Now is the time at which references are judged.
	Now time.Time
	// Only selects the objects whose references are judged; nil selects all.
	Only func(*graph.Record) bool
}

// Dangling is a reference whose owner does not exist, or could not be read.
type Dangling struct {
	Object graph.Node
	Owner  graph.OwnerView
	// Unread is true if the owner could not be read.
	Unread bool
}

// Find returns the dangling references of all objects that are not being deleted, in the order of the objects.
func Find(in Input) (all []Dangling) {
	for _, n := range in.Graph.Objects() {
		if len(n.Record.References) == 0 || n.Record.Deleting || in.Only != nil && !in.Only(n.Record) {
			continue
		}
		v, ok := in.Graph.View(n.Key)
		if !ok {
			continue
		}
		for _, o := range v.Owners {
			state := decide.Judge(&o, n.Record.Namespace, in.Now)
			unread := state == decide.Unverified && o.Observed == nil
			if state == decide.Dangling && o.Resource != nil || unread {
				all = append(all, Dangling{n, o, unread})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Dangling) int { return lint.CompareObjects(a.Object, b.Object) })
	return all
}

// Occupant is the result of a live read at the coordinates that a dangling reference names.
type Occupant struct {
	// Record is the object; nil if there is none.
	Record *graph.Record
	// Err is the read's error.
	Err error
}

// Link connects a dangling reference with the object that now has the owner's coordinates.
type Link struct {
	Reference graph.Reference
	Owner     graph.Node
}

// rewritten returns the reference with the owner's present UID.
func (l Link) rewritten() graph.Reference {
	r := l.Reference
	r.UID = l.Owner.Key.UID
	return r
}

// Change is the set of links to make in one object.
type Change struct {
	Object graph.Node
	Links  []Link
}

// Reason says why a reference is not changed. Scripts rely on the values.
type Reason string

const (
	// Missing: there is no object at the reference's coordinates.
	Missing Reason = "missing"
	// BeingDeleted: the object at the coordinates is being deleted.
	BeingDeleted Reason = "being-deleted"
	// Elsewhere: another object has the reference's UID, so the intended owner is ambiguous.
	Elsewhere Reason = "elsewhere"
	// NotCreated: the owner is among the manifests and gets its UID only when it is created.
	NotCreated Reason = "not-created"
	// Unread: the owner, or the object at its coordinates, could not be read.
	Unread Reason = "unread"
)

// Left is a dangling reference that is not changed.
type Left struct {
	Object    graph.Node
	Reference graph.Reference
	Reason    Reason
	// Others are the possible owners if the reference is ambiguous, or the owner that is being deleted.
	Others []graph.Node
	Err    error
}

// Plan contains the changes to make, and the dangling references that are not changed.
type Plan struct {
	// Levels are the changes. Changes of one level can be made in any order, but only after all earlier levels. An
	// owner is changed before its dependents, except in a ring.
	Levels [][]Change
	Left   []Left
}

// Resolve returns the plan for the dangling references of a graph. occupants holds the results of live reads by the
// coordinates that the references name.
func Resolve(g *graph.Graph, all []Dangling, occupants map[graph.Coordinates]Occupant) Plan {
	x := newIndex(g)
	var p Plan
	changes := map[graph.Key]*Change{}
	var order []graph.Key
	for _, d := range all {
		at := occupants[d.Owner.At]
		left := func(r Reason, others ...graph.Node) {
			p.Left = append(p.Left, Left{d.Object, d.Owner.Reference, r, others, at.Err})
		}
		if d.Unread || at.Err != nil {
			left(Unread)
			continue
		}
		others := x.strangers(&d.Owner)
		if at.Record == nil {
			switch {
			case len(others) > 0:
				left(Elsewhere, others...)
			case x.created[placeOf(&d.Owner)]:
				left(NotCreated)
			default:
				left(Missing)
			}
			continue
		}
		owner := graph.Node{Key: graph.Key{Resource: d.Owner.Resource.GroupResource(), UID: at.Record.UID}, Record: at.Record}
		switch {
		case at.Record.UID == d.Owner.Reference.UID:
			// The owner has been created meanwhile: the reference is not dangling.
		case len(others) > 0:
			left(Elsewhere, append(others, owner)...)
		case at.Record.Deleting:
			left(BeingDeleted, owner)
		default:
			c := changes[d.Object.Key]
			if c == nil {
				c = &Change{Object: d.Object}
				changes[d.Object.Key] = c
				order = append(order, d.Object.Key)
			}
			c.Links = append(c.Links, Link{d.Owner.Reference, owner})
		}
	}
	p.Levels = levels(g, order, changes)
	return p
}

// place identifies an object by resource, namespace and name.
type place struct {
	resource        schema.GroupResource
	namespace, name string
}

func placeOf(o *graph.OwnerView) place {
	return place{o.Resource.GroupResource(), o.At.Namespace, o.At.Name}
}

// index finds observed objects.
type index struct {
	byUID map[types.UID][]graph.Node
	// created holds the places of objects from manifests, which get their UID only when they are created.
	created map[place]bool
}

func newIndex(g *graph.Graph) index {
	x := index{map[types.UID][]graph.Node{}, map[place]bool{}}
	for _, n := range g.Objects() {
		x.byUID[n.Key.UID] = append(x.byUID[n.Key.UID], n)
		if strings.HasPrefix(string(n.Key.UID), lint.NewUID) {
			x.created[place{n.Key.Resource, n.Record.Namespace, n.Record.Name}] = true
		}
	}
	return x
}

// strangers returns the objects that have a reference's UID but another kind or name. If one of them has the same kind
// and name in another namespace, it returns none: the UID was copied from there together with the dependent.
func (x index) strangers(o *graph.OwnerView) []graph.Node {
	shown := x.byUID[o.Reference.UID]
	if slices.ContainsFunc(shown, func(n graph.Node) bool {
		return n.Key.Resource == o.Resource.GroupResource() && n.Record.Name == o.At.Name
	}) {
		return nil
	}
	return slices.Clone(shown)
}

// Rewrite applies links to references, and returns the new references and the number of rewritten ones. A reference that
// no longer exists is not added again. Duplicates are removed from the result.
func Rewrite(refs []graph.Reference, links []Link) (rewritten []graph.Reference, applied int) {
	for _, r := range refs {
		if i := slices.IndexFunc(links, func(l Link) bool { return l.Reference == r }); i >= 0 {
			r = links[i].rewritten()
			applied++
		}
		if !slices.Contains(rewritten, r) {
			rewritten = append(rewritten, r)
		}
	}
	return rewritten, applied
}

// levels orders changes so that an object comes after all its owners, direct and indirect, as they will be after the
// changes. In a ring of owners one member comes first.
func levels(g *graph.Graph, order []graph.Key, changes map[graph.Key]*Change) (all [][]Change) {
	const pending = -1
	level := map[graph.Key]int{} // the first level after the changes of an object and its owners; pending during their visit
	type visit struct {
		key    graph.Key
		owners []graph.Key
		level  int
	}
	for _, first := range order {
		if _, done := level[first]; done {
			continue
		}
		level[first] = pending
		path := []visit{{key: first, owners: ownersOf(g, first, changes[first])}}
		for len(path) > 0 {
			v := &path[len(path)-1]
			if len(v.owners) > 0 {
				next := v.owners[0]
				known, seen := level[next]
				switch {
				case !seen:
					level[next] = pending
					path = append(path, visit{key: next, owners: ownersOf(g, next, changes[next])})
					continue // and look at its level when it is known
				case known != pending:
					v.level = max(v.level, known)
				}
				v.owners = v.owners[1:]
				continue
			}
			own := v.level
			if c := changes[v.key]; c != nil {
				for len(all) <= own {
					all = append(all, nil)
				}
				all[own] = append(all[own], *c)
				own++
			}
			level[v.key] = own
			path = path[:len(path)-1]
		}
	}
	for _, l := range all {
		slices.SortFunc(l, func(a, b Change) int { return lint.CompareObjects(a.Object, b.Object) })
	}
	return all
}

// ownersOf returns the owners that an object will have after its change.
func ownersOf(g *graph.Graph, k graph.Key, c *Change) (owners []graph.Key) {
	v, _ := g.View(k)
	for i := range v.Owners {
		if o := &v.Owners[i]; o.Observed != nil {
			owners = append(owners, graph.Key{Resource: o.Resource.GroupResource(), UID: o.Observed.UID})
		}
	}
	if c != nil {
		for _, l := range c.Links {
			owners = append(owners, l.Owner.Key)
		}
	}
	slices.SortFunc(owners, func(a, b graph.Key) int {
		return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource), cmp.Compare(a.UID, b.UID))
	})
	return owners
}
