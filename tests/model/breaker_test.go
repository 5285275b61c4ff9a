package model

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// breaking is one search for rings, as in pkg/gc/breaker.go, as a state machine that stops
// before each call. There the calls for one ring are made concurrently, so here they come in
// any order.
type breaking struct {
	// rings are those that the graph had; the first is being broken.
	rings [][]graph.Member
	// reads holds its members that are still to be read; read and live hold what was read.
	reads []graph.Member
	read  []graph.Member
	live  map[schema.GroupResource][]*graph.Record
	// found are the rings among the members that were read; writes are the members of the
	// first ring that are still to be unblocked.
	found  [][]graph.Member
	writes []graph.Member
	next   ringCall
	// failed is true once a write has failed. The remaining writes may then be given up.
	failed bool
	// again is true if a ring could not be broken. pkg/gc tries each such ring again after a
	// delay of its own. Here all of them are tried again together, at any time; that covers
	// every delay.
	again bool
	over  bool
}

// ringCall is the next step of a search for rings.
type ringCall int

const (
	ringRead ringCall = iota
	ringFind          // everything has been read
	ringWrite
)

// within is a reference of one version of an object.
type within struct {
	uid     types.UID
	version int
	ref     graph.Reference
}

// canLook reports whether a search for rings may begin and could find one.
func (m *model) canLook() bool {
	return m.detects && !m.halted && m.breaking == nil && (m.real != nil || m.waitingChanged || m.lookAgain)
}

// lookForRings begins a search. The order of the rings is arbitrary: reversed tries the
// other order.
func (m *model) lookForRings(reversed bool) bool {
	if !m.canLook() {
		return false
	}
	m.within, m.writesSeen = map[within]bool{}, -1
	if m.real != nil {
		m.noteRings()
		m.breaking = m.real.begin(m, &turn{looking: true})
		m.lookEnded()
		return true
	}
	m.waitingChanged, m.lookAgain = false, false
	b := &breaking{rings: m.graph.Cycles()}
	sortRings(b.rings)
	if reversed {
		slices.Reverse(b.rings)
	}
	m.breaking = b
	b.begin(m)
	m.lookEnded()
	return true
}

// lookOn takes a step of the search for rings.
func (m *model) lookOn(n int, fault bool) bool {
	if !m.breaking.step(m, n, fault) {
		return false
	}
	m.lookEnded()
	return true
}

func (m *model) lookEnded() {
	if m.breaking.ended(m) {
		m.breaking = nil
	}
}

// sortRings puts rings in the order in which pkg/gc/breaker.go works on them: small ones
// first, then by their first members. The members of each come in the order of their
// paths, which are all that the calls show.
func sortRings(rings [][]graph.Member) {
	first := func(ring []graph.Member) graph.Key {
		return slices.MinFunc(ring, func(x, y graph.Member) int { return compareKeys(x.Key, y.Key) }).Key
	}
	slices.SortFunc(rings, func(x, y []graph.Member) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), compareKeys(first(x), first(y)))
	})
	for _, ring := range rings {
		slices.SortFunc(ring, func(x, y graph.Member) int { return comparePaths(x.Key, x.Record, y.Key, y.Record) })
	}
}

// begin starts with the next ring.
func (b *breaking) begin(m *model) {
	b.failed = false
	if len(b.rings) == 0 {
		m.lookAgain, b.over = b.again, true
		return
	}
	b.next, b.read, b.live = ringRead, nil, map[schema.GroupResource][]*graph.Record{}
	b.reads = slices.DeleteFunc(slices.Clone(b.rings[0]), func(mem graph.Member) bool { return m.graph.Catalog().Resource(mem.Key.Resource) == nil })
	if len(b.reads) == 0 {
		b.next = ringFind
	}
}

// done leaves a ring.
func (b *breaking) done(m *model, broken bool) {
	b.again = b.again || !broken
	b.rings, b.found, b.writes = b.rings[1:], nil, nil
	b.begin(m)
}

func (b *breaking) ended(*model) bool { return b.over }

func (b *breaking) choices() int {
	switch {
	case b.next == ringRead:
		return len(b.reads)
	case b.next == ringWrite && b.failed:
		return len(b.writes) + 1
	case b.next == ringWrite:
		return len(b.writes)
	}
	return 1
}

func (b *breaking) step(m *model, n int, fault bool) bool {
	if n >= b.choices() {
		return false
	}
	switch b.next {
	case ringRead:
		mem := b.reads[n]
		b.reads = slices.Delete(slices.Clone(b.reads), n, n+1)
		if !fault && b.readMember(m, mem) {
			if len(b.reads) == 0 {
				b.next = ringFind
			}
			break
		}
		b.done(m, false)
	case ringFind:
		b.found = m.graph.CyclesAmong(b.live)
		sortRings(b.found)
		b.nextFound(m)
	case ringWrite:
		if n == len(b.writes) {
			b.done(m, false)
			break
		}
		mem := b.writes[n]
		b.writes = slices.Delete(slices.Clone(b.writes), n, n+1)
		b.failed = !b.unblock(m, mem) || fault || b.failed
		switch {
		case len(b.writes) > 0:
		case b.failed:
			b.done(m, false)
		default:
			b.found = b.found[1:]
			b.nextFound(m)
		}
	}
	return true
}

func (b *breaking) nextFound(m *model) {
	if len(b.found) == 0 {
		b.done(m, !slices.ContainsFunc(b.read, func(read graph.Member) bool { return !b.isKnown(read) }))
		return
	}
	if slices.ContainsFunc(b.found[0], func(read graph.Member) bool { return !b.isKnown(read) }) {
		b.done(m, false)
		return
	}
	b.next = ringWrite
	b.writes = slices.DeleteFunc(slices.Clone(b.found[0]), func(mem graph.Member) bool {
		return len(mem.Blocking) == 0 || m.graph.Catalog().Resource(mem.Key.Resource) == nil
	})
	if len(b.writes) == 0 {
		b.found = b.found[1:]
		b.nextFound(m)
	}
}

// isKnown reports whether a member was read at the version that the graph had when the
// search began.
func (b *breaking) isKnown(read graph.Member) bool {
	return slices.ContainsFunc(b.rings[0], func(known graph.Member) bool {
		return known.Key == read.Key && known.Record.ResourceVersion == read.Record.ResourceVersion
	})
}

// readMember reads a member and reports whether that succeeded.
func (b *breaking) readMember(m *model, mem graph.Member) bool {
	k := kindOf(mem.Key.Resource)
	o, out := m.get(k, k.Versions[0], mem.Record.Namespace, mem.Record.Name, false)
	if out == ok && o.uid == mem.Key.UID {
		b.live[mem.Key.Resource] = append(b.live[mem.Key.Resource], o.record())
		b.read = append(b.read, graph.Member{Key: mem.Key, Record: o.record()})
	}
	return out != unserved
}

// unblock sets blockOwnerDeletion to false in a member's references within the ring, and
// reports whether that succeeded.
func (b *breaking) unblock(m *model, mem graph.Member) bool {
	o, out := m.patch(kindOf(mem.Key.Resource), mem.Record, "references %v", unblocking(mem.Record.References, mem.Blocking))
	if out == ok {
		m.judgeUnblock(o, mem.Blocking)
		m.server.unblock(o, mem.Blocking)
	}
	return out == ok || out == notFound
}

// noteRings records, for the oracle, which references are within a ring now.
func (m *model) noteRings() {
	if m.writesSeen == m.server.writes {
		return
	}
	m.writesSeen = m.server.writes
	f := facts{objects: m.server.objects}
	for _, w := range f.ringed(func(*kind) bool { return true }) {
		m.within[w] = true
	}
}

func compareWithin(a, b within) int {
	return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.version, b.version), cmp.Compare(a.ref.UID, b.ref.UID), cmp.Compare(a.ref.APIVersion, b.ref.APIVersion), cmp.Compare(a.ref.Kind, b.ref.Kind))
}
