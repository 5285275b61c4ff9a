package model

import (
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// timeoutWorlds returns foreground deletions that are held up until they time out,
// which may happen at any moment.
func timeoutWorlds() (worlds []smallWorld) {
	add := func(name string, objects []action, scripts ...[]action) *smallWorld {
		worlds = append(worlds, smallWorld{name: "timeout, " + name, objects: objects, scripts: scripts, kinds: []*kind{alphas}, rested: true, timeouts: true})
		return &worlds[len(worlds)-1]
	}
	one := func(a ...action) []action { return a }
	held := func(a action) action { a.held = true; return a }
	with := func(a action, r graph.Reference) action { a.refs = append(a.refs, r); return a }
	unknown := blocks("o")[0]
	unknown.Kind = "Nonsense"
	o, d, p, deleteO, strip := alpha("o"), alpha("d", "o"), alpha("p"), inForeground("o"), action{op: opStrip, uid: "o"}

	add("the dependent goes", one(o, d), one(deleteO))
	add("the dependent is held", one(o, held(d)), one(deleteO))
	add("the dependent is held for a while", one(o, held(d)), one(deleteO), one(action{op: opRelease, uid: "d"}))
	add("an unknown reference keeps the dependent", one(o, with(d, unknown)), one(deleteO))
	add("the dependent's only reference is unknown", one(o, with(alpha("d"), unknown)), one(deleteO))
	add("the dependent has another owner", one(o, p, held(alpha("d", "o", "p"))), one(deleteO))
	add("the other owner goes", one(o, p, held(alpha("d", "o", "p"))), one(deleteO), one(action{op: opDelete, uid: "p"}))
	add("somebody else lets the owner go", one(o, held(d), alpha("e", "o")), one(deleteO, strip))
	add("the owner stays", one(held(o), held(d)), one(deleteO), one(action{op: opRelease, uid: "o"}))
	add("asked for again", one(held(o), held(d)), one(deleteO, strip, deleteO))
	add("a dependent's dependent is held", one(o, d, held(alpha("e", "d"))), one(deleteO))
	add("another dependent comes", one(o, held(d)), one(deleteO), one(alpha("e", "o")))
	add("the dependent goes, and another comes in its place", one(o, held(d)), one(deleteO), one(held(alpha("e", "o")), action{op: opRelease, uid: "d"}, action{op: opRelease, uid: "e"}))
	add("in the background after all", one(o, held(d)), one(deleteO, action{op: opDelete, uid: "o", policy: background}))
	add("so that they stay after all", one(o, held(d)), one(deleteO, action{op: opDelete, uid: "o", policy: orphan}))
	own := func(a action, d time.Duration) action { a.timeout = d; return a }
	add("the owner has its own", one(own(o, smallTimeout.Base/2), held(d)), one(deleteO))
	add("the owner never gives up", one(own(o, graph.NoTimeout), held(d)), one(deleteO), one(action{op: opRelease, uid: "d"}))
	add("an empty list", one(o, held(d)), one(deleteO), one(action{op: opRelist, kind: alphas, held: true}))
	for _, ring := range []struct {
		name    string
		objects []action
	}{{"a self-owner", one(alpha("a", "a"))}, {"a pair", one(alpha("a", "b"), alpha("b", "a"))}} {
		add(ring.name+" that is broken before or after", ring.objects, one(inForeground("a"))).looks = true
		add(ring.name+" that nobody looks for", ring.objects, one(inForeground("a"))).blind = true
	}
	return worlds
}
