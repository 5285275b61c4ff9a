package model

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// blocks returns references to objects in the namespace n that hold them.
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

// ringWorlds returns objects that own each other, which users delete in the foreground
// in every order, and what they do meanwhile. What is no ring must not be cut.
func ringWorlds() (worlds []smallWorld) {
	add := func(name string, deep bool, objects []action, scripts ...[]action) {
		worlds = append(worlds, smallWorld{name: name, objects: objects, scripts: scripts, kinds: []*kind{alphas}, rested: true, looks: true, deep: deep})
	}
	one := func(a ...action) []action { return a }
	self, pair, triple := one(alpha("a", "a")), one(alpha("a", "b"), alpha("b", "a")), one(alpha("a", "c"), alpha("b", "a"), alpha("c", "b"))
	a, b, c := inForeground("a"), inForeground("b"), inForeground("c")

	add("self-owner", true, self, one(a))
	add("self-owner with a dependent", true, one(self[0], alpha("d", "a")), one(a))
	add("self-owner that is held", true, self, one(a), one(action{op: opHold, uid: "a"}), one(action{op: opRelease, uid: "a"}))
	for _, by := range []*kind{betas, mirrors} {
		named := blocking(reference(by, "v1", object{name: "a", uid: "a"}))
		add("self-owner that two resources show, by "+by.Name, true, one(action{op: opCreate, kind: betas, namespace: "n", name: "a", uid: "a", refs: []graph.Reference{named}}), one(a))
		worlds[len(worlds)-1].kinds = []*kind{betas, mirrors}
	}
	add("pair, one deleted", true, pair, one(a))
	add("pair, both deleted", true, pair, one(a), one(b))
	add("pair with a tail into it", true, one(pair[0], pair[1], alpha("t", "a")), one(a))
	add("pair with a tail out of it", true, one(alpha("t"), alpha("a", "b", "t"), alpha("b", "a")), one(a, inForeground("t")))
	add("three, one deleted", true, triple, one(a))
	add("three, two deleted, the second holds the first", true, triple, one(a, b))
	add("three, two deleted, the first holds the second", true, triple, one(b, a))
	add("three, each deleted", false, triple, one(a), one(b), one(c))
	add("two rings that share a member", false, one(alpha("a", "b", "c"), alpha("b", "a"), alpha("c", "a")), one(a))
	add("two rings, one leads to the other", true, one(alpha("a", "a"), alpha("b", "b", "a")), one(a), one(b))

	chain := one(alpha("a"), alpha("b", "a"), alpha("c", "b"))
	chain[2].held = true
	add("chain, its end deleted and held", true, chain, one(a), one(action{op: opDelete, uid: "c", policy: background}))
	add("chain, its end deleted in the foreground and held", true, chain, one(a), one(c))
	add("chain, its end deleted, held and let go", true, chain, one(c, a), one(action{op: opRelease, uid: "c"}))
	return append(worlds, dissolvingRings()...)
}

// dissolvingRings returns pairs that wait for each other when the collector starts. While
// it looks at them somebody takes the ring apart.
func dissolvingRings() (worlds []smallWorld) {
	// waits returns a pair the second of which names the first as given.
	waits := func(refs ...graph.Reference) []action {
		objects := []action{alpha("a", "b"), alpha("b"), inForeground("a"), inForeground("b")}
		objects[1].refs = refs
		return objects
	}
	add := func(name string, deep bool, objects []action, scripts ...[]action) {
		worlds = append(worlds, smallWorld{name: name, objects: objects, scripts: scripts, kinds: []*kind{alphas}, looks: true, deep: deep})
	}
	edit := func(uid types.UID, refs ...graph.Reference) action { return action{op: opEdit, uid: uid, refs: refs} }
	one := func(a ...action) []action { return a }
	toA := blocks("a")[0]
	other, unknown, wrong := toA, toA, toA
	other.Controller, unknown.Kind, wrong.Name = graph.True, "Nonsense", "q"

	pair := waits(toA)
	add("pair that waits, one is given up", true, pair, one(edit("a")))
	add("pair that waits, both are given up", false, pair, one(edit("a")), one(edit("b")))
	add("pair that waits, one waits no longer", true, pair, one(action{op: opStrip, uid: "a"}))
	add("pair that waits, one goes in the background", true, pair, one(action{op: opDelete, uid: "a", policy: background}))
	add("pair that waits, one is to leave its own behind", true, pair, one(action{op: opDelete, uid: "a", policy: orphan}))
	add("pair that waits, it is opened and closed", true, pair, one(edit("b"), edit("b", other)))
	add("pair that waits, it is opened elsewhere before it is closed", false, pair, one(edit("b"), edit("a"), edit("b", other)))
	add("pair that waits, a third comes between", false, pair, one(alpha("c", "a"), edit("b", blocks("c")...)))
	add("pair that waits, events are lost", true, pair, one(edit("a"), action{op: opRelist, kind: alphas}))
	add("pair that waits, its kind hides", false, pair, one(action{op: opUnserve, kind: alphas}, action{op: opServe, kind: alphas}))
	add("pair that waits, its kind goes", true, pair, one(action{op: opPurge, kind: alphas}))
	add("pair that waits, and an unknown reference", true, waits(toA, unknown))
	add("no pair: a wrong name", true, waits(wrong))
	add("no pair: an unknown kind", true, waits(unknown))
	return worlds
}
