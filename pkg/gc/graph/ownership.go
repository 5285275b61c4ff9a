package graph

import (
	"slices"
)

// ownership is what the references to one UID share: their holders, and what is known
// of the UID at the places that they declare. The UID is a virtual node as long as no
// monitor shows an object with it. An ownership lives while it has dependents, which
// bounds the facts.
type ownership struct {
	dependents nodeSet
	facts      factSet
	// weight is that of the names in the references (weightOf).
	weight int
}

// nodeSet is a set of nodes with the number of references that each holds. Most are
// small: a map is made only for many.
type nodeSet struct {
	few  []counted
	many map[*node]int32
}

type counted struct {
	n          *node
	references int32
}

// fewNodes is the largest number of nodes that a set holds without a map.
const fewNodes = 16

func (s *nodeSet) len() int { return len(s.few) + len(s.many) }

// all calls yield with each node until that returns false.
func (s *nodeSet) all(yield func(*node) bool) {
	for i := range s.few {
		if !yield(s.few[i].n) {
			return
		}
	}
	for n := range s.many {
		if !yield(n) {
			return
		}
	}
}

// references returns how many references a node holds.
func (s *nodeSet) references(n *node) int32 {
	if s.many != nil {
		return s.many[n]
	}
	for i := range s.few {
		if s.few[i].n == n {
			return s.few[i].references
		}
	}
	return 0
}

func (s *nodeSet) add(n *node) {
	if s.many != nil {
		s.many[n]++
		return
	}
	for i := range s.few {
		if s.few[i].n == n {
			s.few[i].references++
			return
		}
	}
	if len(s.few) < fewNodes {
		s.few = append(s.few, counted{n, 1})
		return
	}
	s.many = make(map[*node]int32, 2*fewNodes)
	for _, c := range s.few {
		s.many[c.n] = c.references
	}
	s.few = nil
	s.many[n] = 1
}

// remove takes one reference of a node away.
func (s *nodeSet) remove(n *node) {
	if s.many != nil {
		if s.many[n]--; s.many[n] <= 0 {
			delete(s.many, n)
		}
		return
	}
	for i := range s.few {
		if s.few[i].n != n {
			continue
		}
		if s.few[i].references--; s.few[i].references <= 0 {
			last := len(s.few) - 1
			s.few[i] = s.few[last]
			s.few[last] = counted{}
			s.few = s.few[:last]
		}
		return
	}
}

// link enters references of a node, which n.rec holds already.
func (g *Graph) link(n *node, references []Reference, affected *affected) {
	for i := range references {
		r := &references[i]
		o := g.owners[r.UID]
		if o == nil {
			o = &ownership{}
			g.owners[r.UID] = o
			g.ownersRoom.needs(len(g.owners))
		}
		o.dependents.add(n)
		o.weight += weightOf(r.Name)
		g.count(n, r, +1, affected)
	}
	g.edges += len(references)
}

// unlink undoes link, for a node that n.rec still shows as it was then or that has the
// same place now. Waiting owners that nothing blocks any more are affected.
func (g *Graph) unlink(n *node, references []Reference, affected *affected) {
	g.unblock(n, references, affected)
	g.unlist(n, references)
}

// unblock takes references out of the counts of what blocks their owners.
func (g *Graph) unblock(n *node, references []Reference, affected *affected) {
	for i := range references {
		g.count(n, &references[i], -1, affected)
	}
}

// unlist takes references of a node out of the index.
func (g *Graph) unlist(n *node, references []Reference) {
	for i := range references {
		r := &references[i]
		g.carryLoss(n, r)
		o := g.owners[r.UID]
		o.dependents.remove(n)
		o.weight -= weightOf(r.Name)
		if o.dependents.len() == 0 {
			delete(g.owners, r.UID)
		}
		o.boundFacts()
	}
	g.owners = trim(g.owners, &g.ownersRoom)
	g.edges -= len(references)
}

// differing returns the parts of two lists of references between what they have in
// common at both ends, without what is in both. Lists that differ in one entry, as
// after nearly every change, cost one pass and no memory.
func differing(before, after []Reference) (removed, added []Reference) {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}

// sameReferences is slices.Equal, which two records that share their list need not
// pay for.
func sameReferences(a, b []Reference) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.Equal(a, b)
}
