package model

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// event is an entry of a monitor's stream.
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
	// listing is true until the graph has been told that the first list is complete.
	// successor is true if the graph had objects of the kind before.
	listing, successor bool
	// suspended is true while there is no monitor and the graph keeps the objects of the
	// last one. ended is true once the kind is known to be deleted for good.
	suspended, ended bool
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

// relist drops all pending events after the first keep ones, and lists instead. A server
// in trouble may return an empty list.
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

// deliver hands the next event to the graph, as the monitors in pkg/gc/observe do.
func (m *monitor) deliver(g *graph.Graph, now time.Time) (look []graph.Key) {
	look = m.deliverOne(g, now)
	return append(look, m.arrived(g, now)...)
}

func (m *monitor) deliverOne(g *graph.Graph, now time.Time) (look []graph.Key) {
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
		return append(look, g.Upsert(gr, e.rec, now)...)
	case ended:
		delete(m.store, n)
		return g.Deleted(gr, e.rec, now)
	default:
		delete(m.store, n)
		return g.Vanished(gr, e.rec.UID)
	}
}

// arrived tells the graph that the first list is complete, once it has been delivered.
// Objects that the graph has from before and that the list does not show have vanished.
func (m *monitor) arrived(g *graph.Graph, now time.Time) (look []graph.Key) {
	if !m.listing || m.initial > 0 {
		return nil
	}
	m.listing = false
	if m.successor {
		shown := map[types.UID]bool{}
		for _, r := range m.store {
			shown[r.UID] = true
		}
		look = g.VanishedExcept(m.kind.GroupResource(), func(uid types.UID) bool { return shown[uid] })
	}
	m.successor = false
	g.Listed(m.kind.GroupResource(), now)
	return look
}

// retire stops the monitor. Its objects stay in the graph, unless the kind, and with it
// its objects, is known to be deleted.
func (m *monitor) retire(g *graph.Graph, now time.Time) []graph.Key {
	gr := m.kind.GroupResource()
	if m.ended || g.Count(gr) == 0 {
		*m = monitor{kind: m.kind}
		return g.RemoveResource(gr, now)
	}
	*m = monitor{kind: m.kind, suspended: true, complete: m.complete}
	g.Suspend(gr, now)
	return nil
}

// forget removes from the graph what is left of a suspended kind that has been deleted.
func (m *monitor) forget(g *graph.Graph, now time.Time) []graph.Key {
	*m = monitor{kind: m.kind}
	return g.RemoveResource(m.kind.GroupResource(), now)
}

// forgettable reports whether forget is to be called.
func (m *monitor) forgettable() bool { return m.suspended && m.ended }

// start announces the kind and lists it. It takes over the objects that the graph has
// from before: a new monitor replaces another when a sweep has found a difference or when
// a kind is served again.
func (m *monitor) start(s *server, g *graph.Graph, now time.Time) []graph.Key {
	gr := m.kind.GroupResource()
	*m = monitor{kind: m.kind, running: true, listing: true, successor: g.Count(gr) > 0, store: map[nsName]*graph.Record{}}
	g.AddResource(gr, m.kind.GroupKind(), now)
	g.SetReadable(gr, true, now)
	m.initial = 1 // there is a first list, if an empty one
	m.relist(s, 0, false)
	return m.arrived(g, now)
}

// healthy reports whether every change on the server arrives.
func (m *monitor) healthy() bool { return m.running && !m.draining && !m.broken && !m.deceived }
