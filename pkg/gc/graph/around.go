package graph

import "k8s.io/apimachinery/pkg/types"

// Vertex is a UID in a picture of the graph.
type Vertex struct {
	UID types.UID
	// At is where the object is, or where the first reference found to it says that it
	// is. Its version is left out.
	At Coordinates
	// Observed holds the object under each resource that shows it; none if no monitor
	// does.
	Observed []Node
	// Owners are the UIDs that it names, each once.
	Owners []types.UID
}

// Around returns everything that is connected with some UIDs through references, in
// either direction and over any number of steps, those UIDs included; all of the
// graph if none is given. A UID that the graph does not know is left out. It takes
// time linear in what it returns.
func (g *Graph) Around(uids ...types.UID) []Vertex {
	g.mu.RLock()
	defer g.mu.RUnlock()
	seen := make(map[types.UID]bool)
	var next []types.UID
	reach := func(uid types.UID) {
		if !seen[uid] && (g.nodes[uid] != nil || g.owners[uid] != nil) {
			seen[uid] = true
			next = append(next, uid)
		}
	}
	for _, uid := range uids {
		reach(uid)
	}
	if len(uids) == 0 {
		for uid := range g.nodes {
			reach(uid)
		}
	}
	var all []Vertex
	for len(next) > 0 {
		v := g.vertex(next[len(next)-1])
		next = next[:len(next)-1]
		all = append(all, v)
		for _, uid := range v.Owners {
			reach(uid)
		}
		if o := g.owners[v.UID]; o != nil {
			for d := range o.dependents.all {
				reach(d.rec.UID)
			}
		}
	}
	return all
}

// vertex is what is known of a UID.
func (g *Graph) vertex(uid types.UID) Vertex {
	v := Vertex{UID: uid}
	named := make(map[types.UID]bool)
	for n := g.nodes[uid]; n != nil; n = n.twin {
		v.At = n.coordinates()
		v.Observed = append(v.Observed, n.outside())
		for i := range n.rec.References {
			if o := n.rec.References[i].UID; !named[o] {
				named[o] = true
				v.Owners = append(v.Owners, o)
			}
		}
	}
	if len(v.Observed) > 0 || g.owners[uid] == nil {
		return v
	}
	for d := range g.owners[uid].dependents.all {
		for i := range d.rec.References {
			if r := &d.rec.References[i]; r.UID == uid {
				v.At = g.ownerView(r, d.rec.Namespace).At
				return v
			}
		}
	}
	return v
}
