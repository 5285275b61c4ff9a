package model

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// What the oracle knows of rings. It follows references one by one, from each to each,
// and knows nothing of components.

// ringed returns the references within rings: those of a waiting object to a waiting
// owner that it blocks, from which blocking references lead back to it. Only kinds that
// counts is true of make one.
func (f *facts) ringed(counts func(*kind) bool) (all []within) {
	owners := map[types.UID][]within{}
	for uid, d := range f.objects {
		if !d.waits() {
			continue
		}
		for _, r := range d.refs {
			if o := f.objects[r.UID]; o != nil && o.waits() && f.certainlyBlocks(d, r, o) && counts(f.kindNamed(r)) {
				owners[uid] = append(owners[uid], within{uid, d.version, r})
			}
		}
	}
	leads := func(from, to types.UID) bool {
		seen := map[types.UID]bool{from: true}
		for next := []types.UID{from}; len(next) > 0; next = next[1:] {
			if next[0] == to {
				return true
			}
			for _, w := range owners[next[0]] {
				if !seen[w.ref.UID] {
					seen[w.ref.UID] = true
					next = append(next, w.ref.UID)
				}
			}
		}
		return false
	}
	for uid, blocked := range owners {
		for _, w := range blocked {
			if leads(w.ref.UID, uid) {
				all = append(all, w)
			}
		}
	}
	return all
}

// certainlyBlocks is true if a reference of d holds its owner and is right. What
// nobody serves is a guess.
func (f *facts) certainlyBlocks(d *object, r graph.Reference, owner *object) bool {
	k := f.kindNamed(r)
	return r.BlockOwnerDeletion == graph.True && k != nil && k.Monitored && f.names(d, r, owner)
}
