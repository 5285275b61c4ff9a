package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// generator draws the steps of a world.
type generator struct {
	world
	r    *rand.Rand
	made int
	// ever holds every object that ever existed: references may name any of them.
	ever []object
}

func one[T any](g *generator, from []T) T { return from[g.r.IntN(len(from))] }

func (g *generator) chance(n, of int) bool { return g.r.IntN(of) < n }

func (g *generator) next(m *model) action {
	if len(m.server.objects) < g.objects && g.made < 3*g.objects && (g.made < g.objects || g.chance(1, 20)) {
		return g.create()
	}
	if !g.lossless && g.chance(g.relist, 1000) {
		return action{op: opRelist, kind: one(g, allKinds), n: g.r.IntN(4), held: g.chance(1, 4)}
	}
	if !g.lossless && g.chance(g.catalog, 1000) {
		return action{op: one(g, []op{opPurge, opUnserve, opServe, opServe, opServe, opServe}), kind: one(g, allKinds)}
	}
	if m.halted && g.chance(1, 6) {
		// A pause that takes no time puts no deadline off.
		return []action{{op: opGoOn}, {op: opPause, n: 1 + g.r.IntN(100)}, {op: opTick, n: g.r.IntN(5)}}[g.r.IntN(3)]
	}
	if g.pauses && m.real != nil && g.chance(1, 60) {
		return action{op: opHalt}
	}
	if g.ends && g.chance(1, 150) {
		return action{op: opEnd, namespace: one(g, g.namespaces)}
	}
	if len(m.server.ending) > 0 && g.chance(1, 12) {
		return action{op: opEmpty, kind: one(g, allKinds), namespace: one(g, g.namespaces)}
	}
	switch c := g.r.IntN(100); {
	case c < 6:
		return action{op: opDelete, uid: g.any().uid, policy: g.policy()}
	case c < 10:
		o := g.any()
		if g.chance(g.rings, 100) {
			return g.close(m, o)
		}
		return action{op: opEdit, uid: o.uid, refs: g.references(o.namespace)}
	case c < 12:
		return action{op: opRelease, uid: g.any().uid}
	case c < 13:
		return action{op: opHold, uid: g.any().uid}
	case c < 14 && g.policies > 0:
		return action{op: []op{opStrip, opPause, opPause, opPause}[g.r.IntN(4)], uid: g.any().uid, n: 1 + g.r.IntN(4)}
	case c < 15:
		return action{op: opResync}
	case c < 16:
		return action{op: opRetire, kind: one(g, allKinds)}
	case c < 17:
		if !g.lossless && g.chance(1, 3) {
			return action{op: opSweep, kind: one(g, allKinds)}
		}
		if g.chance(2, 3) {
			return action{op: opPause, n: 1 + g.r.IntN(8)}
		}
		return action{op: opTick, n: g.r.IntN(20)}
	case c < 55:
		return action{op: opDeliver, kind: one(g, allKinds)}
	}
	if m.breaking != nil && g.chance(1, 3) {
		return action{op: opBreak, n: g.r.IntN(max(1, m.breaking.choices())), held: !g.lossless && g.chance(g.fault, 100)}
	}
	if m.canLook() && g.chance(1, 10) {
		return action{op: opLook, n: g.r.IntN(2)}
	}
	if m.timeout.Base > 0 && g.chance(1, 50) {
		if keys := m.waiting(); len(keys) > 0 {
			return action{op: opExpire, key: one(g, keys)}
		}
	}
	n := g.r.IntN(len(m.workers))
	if m.workers[n] != nil {
		return action{op: opStep, n: n, choice: g.r.IntN(max(1, m.workers[n].choices())), held: !g.lossless && g.chance(g.fault, 100)}
	}
	if len(m.orphans)+len(m.orphansDelayed) > 0 && g.chance(1, 2) {
		keys := m.orphans
		if len(keys) == 0 || g.chance(1, 8) {
			keys = m.orphansDelayed
		}
		if len(keys) > 0 {
			return action{op: opOrphan, n: n, key: one(g, sortedKeys(keys))}
		}
	}
	keys := m.queue
	if len(keys) == 0 || g.chance(1, 8) {
		keys = m.delayed
	}
	if len(keys) == 0 {
		return action{op: opDeliver, kind: one(g, allKinds)}
	}
	if len(keys) > 50 { // sorting thousands of keys at each step would be too slow
		least := graph.Key{}
		for k := range keys {
			if least.UID == "" || k.UID < least.UID || k.UID == least.UID && k.Resource.String() < least.Resource.String() {
				least = k
			}
		}
		return action{op: opBegin, n: n, key: least}
	}
	return action{op: opBegin, n: n, key: one(g, sortedKeys(keys))}
}

// close makes an object name itself or an object that depends on it, perhaps indirectly:
// that closes a ring.
func (g *generator) close(m *model, o object) action {
	below := []types.UID{o.uid}
	for i := 0; i < len(below) && len(below) < 10; i++ {
		for _, uid := range slices.Sorted(maps.Keys(m.server.objects)) {
			if !slices.Contains(below, uid) && slices.ContainsFunc(m.server.objects[uid].refs, func(r graph.Reference) bool { return r.UID == below[i] }) {
				below = append(below, uid)
			}
		}
	}
	uid := one(g, below)
	a := action{op: opEdit, uid: o.uid}
	if now := m.server.objects[o.uid]; now != nil && g.chance(1, 2) {
		a.refs = slices.Clone(now.refs)
	}
	if d := m.server.objects[uid]; d != nil {
		k := one(g, kindsOf(d.storage))
		a.refs = append(a.refs, blocking(reference(k, one(g, k.Versions), *d)))
	}
	return a
}

// policy draws how a user deletes, or which finalizer a user sets.
func (g *generator) policy() policy {
	if !g.chance(g.policies, 100) {
		return []policy{background, ""}[g.r.IntN(2)]
	}
	return []policy{foreground, foreground, orphan}[g.r.IntN(3)]
}

func (g *generator) any() object {
	if len(g.ever) == 0 {
		return object{}
	}
	return one(g, g.ever)
}

func (g *generator) create() action {
	kinds := []*kind{alphas, alphas, betas, betas, gammas, shadows}
	if g.lossless {
		kinds = kinds[:5] // an unmonitored kind is read again only as time passes
	}
	k := one(g, kinds)
	a := action{op: opCreate, kind: k, uid: types.UID(fmt.Sprintf("u%d", g.made)), name: fmt.Sprintf("o%d", g.r.IntN(2*g.objects)), held: g.chance(1, 12)}
	if k.Namespaced {
		a.namespace = one(g, g.namespaces)
	}
	a.refs = g.references(a.namespace)
	if g.chance(1, 20) {
		a.policy = g.policy()
	}
	if g.timeouts && g.chance(1, 6) {
		a.timeout = one(g, []time.Duration{30 * time.Second, 5 * time.Minute, graph.NoTimeout})
	}
	g.made++
	g.ever = append(g.ever, object{storage: k.storage, namespace: a.namespace, name: a.name, uid: a.uid})
	return a
}

// references draws the references of an object in a namespace. Most are right, and name an
// object that exists or once did.
func (g *generator) references(namespace string) (refs []graph.Reference) {
	n := one(g, []int{0, 1, 1, 1, 2, 2, 3})
	for range n {
		if len(g.ever) == 0 || g.chance(g.bogus, 100) {
			k := one(g, allKinds)
			refs = append(refs, reference(k, one(g, k.Versions), object{name: "nobody", uid: types.UID(fmt.Sprintf("bogus%d", g.r.IntN(3)))}))
			continue
		}
		o := g.any()
		for range 4 { // owners in the same namespace are the rule
			if o.namespace == namespace || o.namespace == "" {
				break
			}
			o = g.any()
		}
		k := one(g, kindsOf(o.storage))
		ref := reference(k, one(g, k.Versions), o)
		if g.chance(g.wrong, 100) {
			switch g.r.IntN(6) {
			case 0:
				ref.Name = g.any().name
			case 1:
				ref.APIVersion = k.Group + "/v9"
			case 2:
				ref.Kind = "Nonsense"
			case 3:
				ref.APIVersion = "a/b/c"
			case 4:
				other := one(g, allKinds)
				ref = reference(other, other.Versions[0], o)
			case 5:
				ref.UID = g.any().uid
			}
		}
		if g.chance(max(g.blocking, 20), 100) {
			ref.BlockOwnerDeletion = graph.True
		}
		refs = append(refs, ref)
	}
	return refs
}

func kindsOf(storage string) (kinds []*kind) {
	for _, k := range allKinds {
		if k.storage == storage {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// reference names an object under a kind.
func reference(k *kind, version string, o object) graph.Reference {
	apiVersion := version
	if k.Group != "" {
		apiVersion = k.Group + "/" + version
	}
	return graph.Reference{APIVersion: apiVersion, Kind: k.Kind, Name: o.name, UID: o.uid}
}
