package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// The oracle finds rings by following references one by one, from each object. It does not
// compute components.

// ringed returns the references within rings: those by which a waiting object blocks a
// waiting owner from which blocking references lead back to the object. Only kinds for
// which counts is true matter.
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

// certainlyBlocks reports whether a reference of d blocks its owner and is right.
// References to unserved kinds are uncertain and do not count.
func (f *facts) certainlyBlocks(d *object, r graph.Reference, owner *object) bool {
	k := f.kindNamed(r)
	return r.BlockOwnerDeletion == graph.True && k != nil && k.Monitored && f.names(d, r, owner)
}

// TestOracleKnowsRings: the oracle itself finds the members of rings, and nothing else.
func TestOracleKnowsRings(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []action
		want    string
	}{
		"self-owner":         {[]action{alpha("a", "a")}, "a-a"},
		"pair":               {[]action{alpha("a", "b"), alpha("b", "a")}, "a-b b-a"},
		"tails":              {[]action{alpha("t"), alpha("a", "b", "t"), alpha("b", "a"), alpha("u", "a")}, "a-b b-a"},
		"shared member":      {[]action{alpha("a", "b", "c"), alpha("b", "a"), alpha("c", "a")}, "a-b a-c b-a c-a"},
		"chain":              {[]action{alpha("a"), alpha("b", "a"), alpha("c", "b")}, ""},
		"ring below a chain": {[]action{alpha("a"), alpha("b", "a", "c"), alpha("c", "b")}, "b-c c-b"},
	} {
		m := newModel(1, 1)
		live(t, m, tc.objects...)
		ringed := func() string {
			var all []string
			for _, w := range (&facts{objects: m.server.objects}).ringed(func(*kind) bool { return true }) {
				all = append(all, fmt.Sprintf("%s-%s", w.uid, w.ref.UID))
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		if got := ringed(); got != "" {
			t.Errorf("%s: %q wait for each other though nobody has deleted them", name, got)
		}
		for _, a := range tc.objects {
			live(t, m, inForeground(a.uid))
		}
		if got := ringed(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if tc.want != "" && m.compare() == nil {
			t.Errorf("%s: a world with a ring passes", name)
		}
	}
}
