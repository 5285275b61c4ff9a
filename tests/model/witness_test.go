package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// witness records which proofs the next event of a monitor gives the graph.
func (m *model) witness(mon *monitor) {
	e := mon.stream[0]
	uid := e.rec.UID
	// Facts about an owner last as long as this dependent names it.
	for p := range m.witnessed {
		if p[0] == uid && (e.what != shown || !refersTo(e.rec, p[1])) {
			delete(m.witnessed, p)
		}
	}
	if e.what == shown && !e.rec.WaitingForDependents() {
		delete(m.went, graph.Key{Resource: mon.kind.GroupResource(), UID: uid}) // the next wait counts from its own beginning
	}
	if e.what != ended {
		return
	}
	m.noteWent(graph.Key{Resource: mon.kind.GroupResource(), UID: uid})
	for _, other := range m.monitors {
		for _, d := range other.store {
			if d.UID != uid && refersTo(d, uid) {
				p := [2]types.UID{d.UID, uid}
				if mon.kind == mirrors && m.witnessed[p].kind != nil {
					continue // both resources have shown it; one is enough
				}
				m.witnessed[p] = witness{mon.kind, e.rec.Namespace, e.rec.Name}
			}
		}
	}
}

// unwitness forgets the proofs for the objects of a kind, which the graph no longer has.
func (m *model) unwitness(k *kind) {
	for p := range m.witnessed {
		if m.storages[p[0]] == k.storage {
			delete(m.witnessed, p)
		}
	}
}

func refersTo(r *graph.Record, uid types.UID) bool {
	return slices.ContainsFunc(r.References, func(ref graph.Reference) bool { return ref.UID == uid })
}
