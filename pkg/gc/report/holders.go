package report

import (
	"math/bits"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// behind says what a foreground deletion waits for, directly or through others.
type behind struct {
	held  []Holder // the first of count that do not go by themselves
	count int
	// ring is true if every object that was found waits for another of them, so that none can be the first to go.
	ring bool
	// members are the first of a ring.
	members []Object
}

const (
	// maxSearched bounds how many objects are looked at.
	maxSearched = 10_000
	// told is how many direct blockers are told apart in Holder.Holds.
	told = bits.UintSize
)

// behindOf searches downwards from an object in foreground deletion for the objects that wait for nothing themselves. Those of
// them that will not go by themselves are its holders.
func behindOf(g *graph.Graph, k graph.Key, o decide.Options, now time.Time) behind {
	// through holds for each object the direct blockers that it is behind, as bits.
	through := map[graph.Key]uint{}
	nodes := map[graph.Key]graph.Node{}
	below := map[graph.Key][]graph.Node{}
	var next []graph.Key
	reach := func(n graph.Node, bits uint) {
		before, known := through[n.Key]
		if known && before|bits == before || !known && len(through) == maxSearched {
			return
		}
		through[n.Key], nodes[n.Key] = before|bits, n
		next = append(next, n.Key)
	}
	for i, n := range g.Blockers(k, maxSearched) {
		reach(n, 1<<min(i, told-1))
	}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		blockers, looked := below[at]
		if !looked {
			blockers = g.Blockers(at, maxSearched)
			below[at] = blockers
		}
		for _, n := range blockers {
			reach(n, through[at])
		}
	}
	var b behind
	moves := false
	for key, n := range nodes {
		if len(below[key]) > 0 {
			continue
		}
		h, holds := holder(g, n, o, now)
		if !holds {
			moves = true
			continue
		}
		h.Holds = bits.OnesCount(through[key])
		b.held = append(b.held, h)
	}
	b.count = len(b.held)
	b.ring = !moves && b.count == 0 && len(nodes) > 0
	sortHolders(b.held)
	b.held = b.held[:min(len(b.held), listed)]
	if b.ring {
		var all []graph.Node
		for _, n := range nodes {
			all = append(all, n)
		}
		b.members = objectsOf(all).First
	}
	return b
}
