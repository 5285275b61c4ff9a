package graph

import (
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

// Node is an observed object.
type Node struct {
	Key    Key
	Record *Record
}

// node is one observed object inside the graph. It is reachable through Graph.nodes
// alone.
type node struct {
	rec   *Record
	table *table
	// twin is the next observed object with the same UID, shown by another
	// resource; nearly always nil.
	twin *node
	// blocking counts the references that make this object wait for their holders,
	// were it in foreground deletion.
	blocking int32
	// missing is true while the monitor does not show the object any more and nobody
	// has seen its end. It counts as observed until a live read tells.
	missing bool
}

func (n *node) key() Key { return Key{Resource: n.table.resource, UID: n.rec.UID} }

func (n *node) outside() Node { return Node{Key: n.key(), Record: n.rec} }

func (n *node) coordinates() Coordinates {
	return Coordinates{Group: n.table.kind.Group, Kind: n.table.kind.Kind, Namespace: n.rec.Namespace, Name: n.rec.Name}
}

// table is what the nodes of one monitored resource have in common.
type table struct {
	resource schema.GroupResource
	kind     schema.GroupKind
	nodes    int
	// listed is true once all that the resource's monitor first listed has been shown,
	// unreadable while it cannot be listed or watched, and suspended while nobody serves
	// it and its objects may exist.
	listed, unreadable, suspended bool
}

// observed returns the node of a key, or nil.
func (g *Graph) observed(k Key) *node {
	t := g.tables[k.Resource]
	if t == nil {
		return nil
	}
	return g.find(t, k.UID)
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

// insert enters a node without its references.
func (g *Graph) insert(n *node) {
	n.twin = g.nodes[n.rec.UID]
	g.nodes[n.rec.UID] = n
	g.nodesRoom.needs(len(g.nodes))
	n.table.nodes++
}

// remove takes a node and its references out of the graph.
func (g *Graph) remove(n *node, affected *affected) {
	n.table.nodes--
	uid := n.rec.UID
	switch first := g.nodes[uid]; {
	case first == n && n.twin == nil:
		delete(g.nodes, uid)
		g.nodes = trim(g.nodes, &g.nodesRoom)
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
	g.unlink(n, n.rec.References, affected)
	g.recount(uid, affected) // a twin may have been blocked under this one's kind
	g.forgetWait(n)
	g.forgetTerminating(n)
	delete(g.losses, n)
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

// Shows is true while the graph has the object: its end has not been seen.
func (g *Graph) Shows(k Key) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.observed(k) != nil
}

// Shape returns the namespace of an observed object and how many references it
// has; empty and 0 if no monitor shows it.
func (g *Graph) Shape(k Key) (namespace string, references int) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if n := g.observed(k); n != nil {
		return n.rec.Namespace, len(n.rec.References)
	}
	return "", 0
}

// elapsed returns the time of a timestamp of the wall clock on the clock that now was
// read from, which no jump moves. A timestamp in the future is now.
func elapsed(unix int64, now time.Time) time.Time {
	return now.Add(-max(0, now.Sub(time.Unix(unix, 0))))
}
