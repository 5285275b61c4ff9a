package model

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// event is what a monitor's stream holds.
type event struct {
	what what
	rec  *graph.Record
}

type what int

const (
	shown   what = iota // ADDED, MODIFIED, or listed
	ended               // a watch's DELETED
	missing             // a re-list lacks what the store has
)

// nsName is an informer store's key: it knows names, not UIDs.
type nsName struct{ namespace, name string }

// monitor is an informer of one kind and its handler.
type monitor struct {
	kind *kind
	// running is true from its start until it is retired.
	running bool
	// draining is true once discovery has ceased to list the kind.
	draining bool
	// broken is true when the watch has ended: nothing arrives until a re-list.
	broken bool
	// deceived is true after a list that was empty and should not have been.
	deceived bool
	// initial counts the events of the first list that are still to be delivered.
	initial int
	// successor is true of a monitor that has been put in another's place: what it has
	// not shown once it has listed has vanished.
	successor bool
	// complete is the time up to which everything has been delivered; zero if nothing
	// is known.
	complete time.Time
	stream   []event
	store    map[nsName]*graph.Record
}

// receive takes an event from the server.
func (m *monitor) receive(o *object, end bool) {
	if !m.running || m.broken {
		return
	}
	e := event{shown, o.record()}
	if end {
		e.what = ended
	}
	m.stream = append(m.stream, e)
}

// relist loses what the watch would have told after the first keep events, and
// lists instead. A server in trouble may answer an empty list.
func (m *monitor) relist(s *server, keep int, empty bool) {
	m.broken, m.deceived = false, empty
	first := m.initial > keep
	m.stream = m.stream[:min(keep, len(m.stream))]
	store := make(map[nsName]types.UID, len(m.store))
	for n, r := range m.store {
		store[n] = r.UID
	}
	for _, e := range m.stream {
		n := nsName{e.rec.Namespace, e.rec.Name}
		if e.what == shown {
			store[n] = e.rec.UID
		} else {
			delete(store, n)
		}
	}
	var listed []*object
	for _, o := range s.objects {
		if o.storage == m.kind.storage && !empty {
			listed = append(listed, o)
		}
	}
	slices.SortFunc(listed, func(a, b *object) int { return cmp.Compare(a.uid, b.uid) })
	for _, o := range listed {
		m.stream = append(m.stream, event{shown, o.record()})
		delete(store, nsName{o.namespace, o.name})
	}
	var lost []*graph.Record
	for n, uid := range store {
		lost = append(lost, &graph.Record{Namespace: n.namespace, Name: n.name, UID: uid})
	}
	slices.SortFunc(lost, func(a, b *graph.Record) int { return cmp.Compare(a.UID, b.UID) })
	for _, r := range lost {
		m.stream = append(m.stream, event{missing, r})
	}
	if first {
		m.initial = len(m.stream)
	}
}

// deliver hands the next event to the graph, as the handler in pkg/gc/observe does.
func (m *monitor) deliver(g *graph.Graph) (look []graph.Key) {
	look = m.deliverOne(g)
	return append(look, m.takeOver(g)...)
}

func (m *monitor) deliverOne(g *graph.Graph) (look []graph.Key) {
	e := m.stream[0]
	m.stream = m.stream[1:]
	m.initial = max(m.initial-1, 0)
	gr, n := m.kind.GroupResource(), nsName{e.rec.Namespace, e.rec.Name}
	switch e.what {
	case shown:
		if old := m.store[n]; old != nil && old.UID != e.rec.UID {
			look = g.Vanished(gr, old.UID)
		}
		m.store[n] = e.rec
		return append(look, g.Upsert(gr, e.rec)...)
	case ended:
		delete(m.store, n)
		return g.Deleted(gr, e.rec)
	default:
		delete(m.store, n)
		return g.Vanished(gr, e.rec.UID)
	}
}

// restart puts a new monitor in the place of this one, as a sweep that has found a
// difference does.
func (m *monitor) restart(s *server, g *graph.Graph) []graph.Key {
	m.start(s, g)
	m.successor = true
	return m.takeOver(g)
}

// takeOver tells the graph what has vanished, once the list has been delivered.
func (m *monitor) takeOver(g *graph.Graph) []graph.Key {
	if !m.successor || m.initial > 0 {
		return nil
	}
	m.successor = false
	shown := map[types.UID]bool{}
	for _, r := range m.store {
		shown[r.UID] = true
	}
	return g.VanishedExcept(m.kind.GroupResource(), func(uid types.UID) bool { return shown[uid] })
}

// retire stops the monitor and takes what it has shown out of the graph.
func (m *monitor) retire(g *graph.Graph) []graph.Key {
	*m = monitor{kind: m.kind}
	return g.RemoveResource(m.kind.GroupResource())
}

// start announces the kind and lists it.
func (m *monitor) start(s *server, g *graph.Graph) {
	*m = monitor{kind: m.kind, running: true, store: map[nsName]*graph.Record{}}
	g.AddResource(m.kind.GroupResource(), m.kind.GroupKind())
	m.initial = 1 // there is a first list, if an empty one
	m.relist(s, 0, false)
}

// healthy is true if whatever happens on the server arrives.
func (m *monitor) healthy() bool { return m.running && !m.draining && !m.broken && !m.deceived }
