package report

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

// TreeVersion is the version of Tree's JSON: it grows when a field changes its meaning or goes.
const TreeVersion = 1

// Tree is objects with their owners and dependents.
type Tree struct {
	Version int   `json:"version"`
	Basis   Basis `json:"basis"`
	// Asked are the objects that were asked for, with all owners above and dependents below; if
	// there are none, the tree is of everything in a namespace, or in all.
	Asked []types.UID `json:"asked,omitempty"`
	// Count is how many objects belong to the tree, of which Nodes lists the first, owners
	// before dependents.
	Count int        `json:"count"`
	Nodes []TreeNode `json:"nodes,omitempty"`
	// Now is the clock that the report was made by.
	Now time.Time `json:"now"`
}

// TreeNode is one object of a tree.
type TreeNode struct {
	Object Object `json:"object"`
	// Owners are its references. Those that are solid or waiting lead to other nodes.
	Owners []TreeOwner `json:"owners,omitempty"`
	// Dependents counts all objects that name its UID; Cut counts those that belong to the tree
	// and are not listed.
	Dependents int `json:"dependents,omitempty"`
	Cut        int `json:"cut,omitempty"`
	// DeletedAt is its deletionTimestamp; the zero time if nobody has deleted it. Waits is
	// foreground or orphan if it stays for the collector, BlockedBy are the dependents that a
	// foreground deletion waits for.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
	Waits     string    `json:"waits,omitempty"`
	BlockedBy Objects   `json:"blockedBy,omitzero"`
	Live
}

// TreeOwner is a reference of an object and what is known of the owner.
type TreeOwner struct {
	Reference
	Controller         bool `json:"controller,omitempty"`
	BlockOwnerDeletion bool `json:"blockOwnerDeletion,omitempty"`
	// State is the judgement: solid, waiting, dangling, orphaned, unknown, invalid or
	// unverified; Shown is true if the owner is in the graph.
	State string `json:"state"`
	Shown bool   `json:"shown,omitempty"`
}

// TreeOptions say which tree is meant.
type TreeOptions struct {
	// Keys are the objects asked for. Without any, it is the trees of Namespace, or of all
	// namespaces if that is empty.
	Keys      []graph.Key
	Namespace string
	// Limit is how many nodes are listed; 0 for all.
	Limit int
}

// NewTree makes the tree. It takes time linear in the objects that belong to it, or in all if
// none is asked for. view returns what is known of an object.
func NewTree(g *graph.Graph, view func(graph.Key) (graph.View, bool), o TreeOptions, b Basis, now time.Time) Tree {
	w := &walk{g: g, view: view, seen: map[graph.Key]*branch{}}
	if len(o.Keys) > 0 {
		for _, k := range o.Keys {
			w.up(k)
		}
		for _, k := range o.Keys {
			w.down(k)
		}
	} else {
		w.everything(o.Namespace)
	}
	order := w.order()
	t := Tree{Version: TreeVersion, Basis: b, Count: len(order), Now: now.UTC().Round(0)}
	for _, k := range o.Keys {
		t.Asked = append(t.Asked, k.UID)
	}
	shown := order
	if o.Limit > 0 {
		shown = order[:min(len(order), o.Limit)]
	}
	in := make(map[graph.Key]bool, len(shown))
	for _, k := range shown {
		in[k] = true
	}
	for _, k := range shown {
		n := w.node(k, now)
		for _, d := range w.seen[k].below {
			if !in[d] {
				n.Cut++
			}
		}
		t.Nodes = append(t.Nodes, n)
	}
	return t
}

// branch is an object of a tree that is being made.
type branch struct {
	view graph.View
	// above and below are the owners and dependents that belong to the tree.
	above, below []graph.Key
	descended    bool
}

type walk struct {
	g    *graph.Graph
	view func(graph.Key) (graph.View, bool)
	seen map[graph.Key]*branch
}

// enter returns the branch of an object, or nil if it has gone.
func (w *walk) enter(k graph.Key) (b *branch, isNew bool) {
	if b := w.seen[k]; b != nil {
		return b, false
	}
	v, ok := w.view(k)
	if !ok {
		return nil, false
	}
	b = &branch{view: v}
	w.seen[k] = b
	return b, true
}

// ownerKeys returns the owners that an object names rightly, each once.
func ownerKeys(v *graph.View) []graph.Key {
	var all []graph.Key
	for i := range v.Owners {
		if o := &v.Owners[i]; o.Observed != nil {
			k := graph.Key{Resource: o.Resource.GroupResource(), UID: o.Reference.UID}
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

// up enters an object and all its owners.
func (w *walk) up(from graph.Key) {
	for next := []graph.Key{from}; len(next) > 0; {
		k := next[len(next)-1]
		next = next[:len(next)-1]
		if b, isNew := w.enter(k); isNew {
			next = append(next, ownerKeys(&b.view)...)
		}
	}
}

// down enters all dependents of an object that is entered.
func (w *walk) down(from graph.Key) {
	for next := []graph.Key{from}; len(next) > 0; {
		k := next[len(next)-1]
		next = next[:len(next)-1]
		b := w.seen[k]
		if b == nil || b.descended {
			continue
		}
		b.descended = true
		for _, d := range w.g.Dependents(k.UID) {
			if v, ok := w.view(d.Key); ok && slices.Contains(ownerKeys(&v), k) {
				w.up(d.Key) // it may have owners beside this one
				next = append(next, d.Key)
			}
		}
	}
}

// everything enters what has an owner or a dependent in a namespace, owners elsewhere, and what has been deleted and is still there.
func (w *walk) everything(namespace string) {
	for _, n := range w.g.Objects() {
		if namespace != "" && n.Record.Namespace != namespace || len(n.Record.References) == 0 && !n.Record.Deleting {
			continue
		}
		if v, ok := w.view(n.Key); ok && (n.Record.Deleting || len(ownerKeys(&v)) > 0) {
			w.up(n.Key)
		}
	}
}

// order links the branches and returns them level by level, each level in order, roots first.
func (w *walk) order() []graph.Key {
	node := func(k graph.Key) graph.Node { return graph.Node{Key: k, Record: w.seen[k].view.Record} }
	byName := func(a, b graph.Key) int { return lint.CompareObjects(node(a), node(b)) }
	var all, roots []graph.Key
	for k, b := range w.seen {
		all = append(all, k)
		for _, o := range ownerKeys(&b.view) {
			if above := w.seen[o]; above != nil && o != k {
				b.above = append(b.above, o)
				above.below = append(above.below, k)
			}
		}
	}
	slices.SortFunc(all, byName)
	for _, k := range all {
		slices.SortFunc(w.seen[k].below, byName)
		if len(w.seen[k].above) == 0 {
			roots = append(roots, k)
		}
	}
	order := make([]graph.Key, 0, len(all))
	done := make(map[graph.Key]bool, len(all))
	visit := func(level []graph.Key) {
		for len(level) > 0 {
			var below []graph.Key
			for _, k := range level {
				if !done[k] {
					done[k] = true
					order = append(order, k)
					below = append(below, w.seen[k].below...)
				}
			}
			level = below
		}
	}
	visit(roots)
	for _, k := range all {
		visit([]graph.Key{k}) // a ring has no root
	}
	return order
}

// node is what there is to say of an object.
func (w *walk) node(k graph.Key, now time.Time) TreeNode {
	v := &w.seen[k].view
	n := TreeNode{Object: objectOf(k, v.Record)}
	for i := range v.Owners {
		o := &v.Owners[i]
		n.Owners = append(n.Owners, TreeOwner{
			Reference:  Reference{o.Reference.APIVersion, o.Reference.Kind, o.Reference.Name, string(o.Reference.UID)},
			Controller: o.Reference.Controller == graph.True, BlockOwnerDeletion: o.Reference.BlockOwnerDeletion == graph.True,
			State: decide.Judge(o, v.Record.Namespace, now).String(), Shown: o.Observed != nil,
		})
	}
	n.Dependents = len(w.g.Dependents(k.UID))
	if !v.Record.Deleting {
		return n
	}
	n.DeletedAt = time.Unix(v.Record.DeletedAt, 0).UTC()
	n.Finalizers = v.Record.Finalizers.Names()
	switch {
	case v.Record.Orphan:
		n.Waits = "orphan"
	case v.Record.Foreground:
		n.Waits = "foreground"
		n.BlockedBy = blockersOf(w.g, v)
	}
	return n
}
