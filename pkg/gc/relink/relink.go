// Package relink finds the owners that dangling references meant: after a restore or a copy, an owner is where its
// dependents say, and has another UID.
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

// Input is what to look at.
type Input struct {
	Graph *graph.Graph
	// Now is the time to judge at.
	Now time.Time
	// Only says whose references to look at; nil for all objects.
	Only func(*graph.Record) bool
}

// Dangling is a reference whose owner does not exist, or of which nobody could tell whether it does.
type Dangling struct {
	Object graph.Node
	Owner  graph.OwnerView
	// Unread is true if nobody could tell.
	Unread bool
}

// Find returns the dangling references of all objects that are not being deleted, in order of the objects.
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

// Occupant is the object at the coordinates that a dangling reference names, as a live read showed it.
type Occupant struct {
	// Record is nil if there is none.
	Record *graph.Record
	// Err says why nothing is known.
	Err error
}

// Link is a reference that is to name the object that now has its owner's place.
type Link struct {
	Reference graph.Reference
	Owner     graph.Node
}

// rewritten returns the reference as it is to be.
func (l Link) rewritten() graph.Reference {
	r := l.Reference
	r.UID = l.Owner.Key.UID
	return r
}

// Change is what is to be changed in one object.
type Change struct {
	Object graph.Node
	Links  []Link
}

// Reason says why a reference is left as it is. Scripts rely on the words.
type Reason string

const (
	// Missing: no object is where the reference says.
	Missing Reason = "missing"
	// BeingDeleted: the object there is being deleted.
	BeingDeleted Reason = "being-deleted"
	// Elsewhere: another object has the reference's UID, so that nobody can tell which of the two is meant.
	Elsewhere Reason = "elsewhere"
	// NotCreated: the owner is among the manifests, and has no UID before it is created.
	NotCreated Reason = "not-created"
	// Unread: nobody could tell whether the owner exists, or which object has its place.
	Unread Reason = "unread"
)

// Left is a dangling reference that is left as it is.
type Left struct {
	Object    graph.Node
	Reference graph.Reference
	Reason    Reason
	// Others are the objects between which nobody can choose, or the one that is being deleted.
	Others []graph.Node
	Err    error
}

// Plan is what to do about dangling references.
type Plan struct {
	// Levels are the changes: those of one level can be made in any order, after those of the levels before it. An
	// owner comes before its dependents, but in rings.
	Levels [][]Change
	Left   []Left
}

// Resolve says what to do about the dangling references of a graph. occupants says what is at the coordinates of
// each.
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
			// It has been created meanwhile: nothing dangles.
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

// place is where an object is.
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
	// created holds the places of those that get their UID only when they are created.
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

// strangers returns what has a reference's UID and cannot be what its words mean. An object of the same kind and name in
// another namespace is none: whoever copied the dependent from there copied the UID with it.
func (x index) strangers(o *graph.OwnerView) []graph.Node {
	shown := x.byUID[o.Reference.UID]
	if slices.ContainsFunc(shown, func(n graph.Node) bool {
		return n.Key.Resource == o.Resource.GroupResource() && n.Record.Name == o.At.Name
	}) {
		return nil
	}
	return slices.Clone(shown)
}

// Rewrite returns references after links have been applied, and how many of the links were: a reference that is not
// there any more is not made again. What then stands there twice is left there once.
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

// levels puts changes in order: an object comes after its owners, and theirs, as they will be. Where owners go round
// in a ring, one of its members comes first.
func levels(g *graph.Graph, order []graph.Key, changes map[graph.Key]*Change) (all [][]Change) {
	const pending = -1
	level := map[graph.Key]int{} // how many changes come before that of an object and its owners; pending on the way there
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

// ownersOf returns the owners of an object once it has been changed.
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
