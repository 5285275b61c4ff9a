package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// blocks returns blocking references to objects in the namespace n.
func blocks(owners ...types.UID) (refs []graph.Reference) {
	for _, o := range owners {
		refs = append(refs, blocking(reference(alphas, "v1", object{name: string(o), uid: o})))
	}
	return refs
}

func blocking(r graph.Reference) graph.Reference { r.BlockOwnerDeletion = graph.True; return r }

func alpha(uid types.UID, owners ...types.UID) action {
	return action{op: opCreate, kind: alphas, namespace: "n", name: string(uid), uid: uid, refs: blocks(owners...)}
}

func inForeground(uid types.UID) action { return action{op: opDelete, uid: uid, policy: foreground} }

// ringWorlds returns objects that own each other. Users delete them in the foreground in
// every order, and act meanwhile. Chains that are no rings must not be cut.
func ringWorlds() (worlds []smallWorld) {
	add := func(name string, objects []action, scripts ...[]action) {
		worlds = append(worlds, smallWorld{name: name, objects: objects, scripts: scripts, kinds: []*kind{alphas}, rested: true, looks: true})
	}
	one := func(a ...action) []action { return a }
	self, pair, triple := one(alpha("a", "a")), one(alpha("a", "b"), alpha("b", "a")), one(alpha("a", "c"), alpha("b", "a"), alpha("c", "b"))
	a, b, c := inForeground("a"), inForeground("b"), inForeground("c")

	add("self-owner", self, one(a))
	add("self-owner with a dependent", one(self[0], alpha("d", "a")), one(a))
	add("self-owner that is held", self, one(a), one(action{op: opHold, uid: "a"}), one(action{op: opRelease, uid: "a"}))
	for _, by := range []*kind{betas, mirrors} {
		named := blocking(reference(by, "v1", object{name: "a", uid: "a"}))
		add("self-owner that two resources show, by "+by.Name, one(action{op: opCreate, kind: betas, namespace: "n", name: "a", uid: "a", refs: []graph.Reference{named}}), one(a))
		worlds[len(worlds)-1].kinds = []*kind{betas, mirrors}
	}
	add("pair, one deleted", pair, one(a))
	add("pair, both deleted", pair, one(a), one(b))
	add("pair with a tail into it", one(pair[0], pair[1], alpha("t", "a")), one(a))
	add("pair with a tail out of it", one(alpha("t"), alpha("a", "b", "t"), alpha("b", "a")), one(a, inForeground("t")))
	add("three, one deleted", triple, one(a))
	add("three, two deleted, the second holds the first", triple, one(a, b))
	add("three, two deleted, the first holds the second", triple, one(b, a))
	add("three, all deleted when the collector starts", slices.Concat(triple, one(a, b, c)))
	add("three, each deleted, first the owner", triple, one(a, b, c))
	add("three, each deleted, first the dependent", triple, one(c, b, a))
	add("three, each deleted in any order", triple, one(a), one(b), one(c))
	add("two rings that share a member", one(alpha("a", "b", "c"), alpha("b", "a"), alpha("c", "a")), one(a))
	add("two rings, one leads to the other", one(alpha("a", "a"), alpha("b", "b", "a")), one(a), one(b))

	below := alpha("h", "a")
	below.held = true
	add("self-owner that blocks one that stays", one(alpha("a"), below, alpha("b", "b", "a")), one(a), one(b))
	chain := one(alpha("a"), alpha("b", "a"), alpha("c", "b"))
	chain[2].held = true
	add("chain, its end deleted and held", chain, one(a), one(action{op: opDelete, uid: "c", policy: background}))
	add("chain, its end deleted in the foreground and held", chain, one(a), one(c))
	add("chain, its end deleted, held and let go", chain, one(c, a), one(action{op: opRelease, uid: "c"}))
	return append(worlds, dissolvingRings()...)
}

// dissolvingRings returns pairs that wait for each other when the collector starts. Users
// take the ring apart while the collector looks at it.
func dissolvingRings() (worlds []smallWorld) {
	// waits returns a pair; the second names the first by the given references.
	waits := func(refs ...graph.Reference) []action {
		objects := []action{alpha("a", "b"), alpha("b"), inForeground("a"), inForeground("b")}
		objects[1].refs = refs
		return objects
	}
	add := func(name string, objects []action, scripts ...[]action) {
		worlds = append(worlds, smallWorld{name: name, objects: objects, scripts: scripts, kinds: []*kind{alphas}, rested: true, looks: true})
	}
	edit := func(uid types.UID, refs ...graph.Reference) action { return action{op: opEdit, uid: uid, refs: refs} }
	one := func(a ...action) []action { return a }
	toA := blocks("a")[0]
	other, unknown, wrong, free := toA, toA, toA, toA
	other.Controller, unknown.Kind, wrong.Name, free.BlockOwnerDeletion = graph.True, "Nonsense", "q", graph.Unset

	pair := waits(toA)
	add("pair that waits, one is given up", pair, one(edit("a")))
	add("pair that waits, both are given up", pair, one(edit("a")), one(edit("b")))
	add("pair that waits, one waits no longer", pair, one(action{op: opStrip, uid: "a"}))
	add("pair that waits, one goes in the background", pair, one(action{op: opDelete, uid: "a", policy: background}))
	add("pair that waits, one is to leave its own behind", pair, one(action{op: opDelete, uid: "a", policy: orphan}))
	add("pair that waits, it is opened and closed", pair, one(edit("b"), edit("b", other)))
	add("pair that waits, it is opened elsewhere before it is closed", pair, one(edit("b"), edit("a"), edit("b", other)))
	add("pair that waits, a third comes between", pair, one(alpha("c", "a"), edit("b", blocks("c")...)))
	add("pair that waits, events are lost", pair, one(edit("a"), action{op: opRelist, kind: alphas}))
	add("pair that waits, its kind hides", pair, one(action{op: opUnserve, kind: alphas}, action{op: opServe, kind: alphas}))
	add("pair that waits, its kind goes", pair, one(action{op: opPurge, kind: alphas}))
	add("pair that waits, and an unknown reference", waits(toA, unknown))
	add("no pair: a wrong name", waits(wrong))
	add("no pair: it does not block", waits(free))
	add("no pair: an unknown kind", waits(unknown))
	return worlds
}
