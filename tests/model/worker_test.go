package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// maxRounds is pkg/gc/attempt.go's.
const maxRounds = 8

// call is what an attempt does next.
type call int

const (
	idle call = iota
	callVerify
	callRead
	callDelete
	callDrop
	callConfirm
	callOwner   // read the object itself, before its finalizer is removed
	callRelease // remove the finalizer
	callFree    // drop an owner's references from the first of free
	callFreeRead
	callList // read the objects of the first of toList
)

// attempt is pkg/gc/attempt.go's attempt as a machine that stops before each call
// and again before it takes the answer in, so that anything can happen meanwhile.
type attempt struct {
	key      graph.Key
	view     graph.View
	live     *graph.Record
	proved   []proof
	rounds   int
	decision decide.Decision

	next call
	// toVerify holds the owners that this round still has to read.
	toVerify []graph.OwnerView
	// answered is true between a read and the taking in of its answer.
	answered bool
	answer   *object
	out      outcome
	asked    time.Time // when the read was sent
	decided  time.Time
	// late is true if the object had waited long enough when that was decided.
	late bool

	// orphaning is true for an attempt to orphan, which has what follows.
	orphaning bool
	free      []graph.Dependent
	tries     int
	toList    []*graph.Resource
	searched  []*graph.Resource
	writes    int  // on the server, when the last search began
	freeAll   bool // all that is left is the finalizer

	// How it ended, once next is idle.
	failed bool
	again  time.Time
}

type proof struct {
	ref  graph.Reference
	at   graph.Coordinates
	fact graph.Fact
}

// begin starts an attempt at a key; it may be over at once.
func begin(m *model, k graph.Key) *attempt {
	a := &attempt{key: k}
	v, found := m.graph.View(k)
	if !found || v.Resource == nil {
		return a
	}
	a.view = v
	a.complete(m)
	a.decide(m)
	return a
}

// beginOrphaning starts pkg/gc/orphan.go's attempt.
func beginOrphaning(m *model, k graph.Key) *attempt {
	a := &attempt{key: k, orphaning: true}
	v, found := m.graph.View(k)
	if !found || v.Resource == nil || !v.Record.Deleting || !v.Record.Orphan {
		return a
	}
	a.view, a.next = v, callOwner
	return a
}

// complete adds to the view what the graph does not know.
func (a *attempt) complete(m *model) {
	if a.view.Record.WaitingForDependents() {
		a.view.Synced = m.synced()
		a.view.WaitingSince = m.graph.WaitingSince(a.key, m.now)
		if m.timeouts && a.view.Blocker != nil {
			a.view.Deadline = m.deadline(a.key)
		}
	}
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		for _, p := range a.proved {
			if p.ref.UID == o.Reference.UID && p.at == o.At {
				o.Fact = p.fact
			}
		}
		unseen := o.Observed == nil || o.Fact.Proved()
		o.Orphaned = unseen && m.orphaned[o.Reference.UID]
	}
}

func (a *attempt) finish() { a.next = idle }

func (a *attempt) fail() { a.next, a.failed = idle, true }

func (a *attempt) decide(m *model) {
	if a.rounds++; a.rounds > maxRounds {
		a.fail()
		return
	}
	d := decide.Decide(&a.view, m.now)
	a.decision, a.decided, a.late = d, m.now, !a.view.Deadline.IsZero() && !a.view.Deadline.After(m.now)
	switch d.Action {
	case decide.Nothing:
		a.again = d.Again
		a.finish()
	case decide.Verify:
		a.next, a.toVerify = callVerify, d.Verify
	case decide.Delete:
		a.next = callDelete
	case decide.Drop:
		a.next = callDrop
	case decide.Confirm:
		a.next = callConfirm
	case decide.Release:
		a.next = callOwner
	case decide.Orphan:
		m.orphans[a.key] = true
		a.finish()
	}
}

// look renews the view and decides.
func (a *attempt) look(m *model) {
	if a.live != nil {
		a.view = m.graph.ViewOf(a.key.Resource, a.live)
	} else if v, found := m.graph.View(a.key); found {
		a.view = v
	}
	if a.view.Resource == nil {
		a.fail()
		return
	}
	a.complete(m)
	a.decide(m)
}

// step makes the call, or takes its answer in. fault makes a call fail: a read
// before it is sent, a write after it was done.
func (a *attempt) step(m *model, fault bool) {
	k, rec := kindOf(a.key.Resource), a.view.Record
	switch {
	case a.answered:
		a.answered = false
		a.take(m)
	case fault && a.next != callDelete && a.next != callDrop && a.next != callRelease && a.next != callFree:
		a.fail()
	case a.next == callVerify:
		o := a.toVerify[0]
		_, version := splitAPIVersion(o.Reference.APIVersion)
		a.asked = m.now
		a.answer, a.out = m.server.get(kindOf(o.Resource.GroupResource()), version, o.At.Namespace, o.At.Name)
		a.answered = true
	case a.next == callRead || a.next == callConfirm || a.next == callOwner:
		a.answer, a.out = m.server.get(k, k.Versions[0], rec.Namespace, rec.Name)
		a.answered = true
	case a.next == callDelete:
		o, out := m.server.current(k, rec)
		if out == ok {
			m.judgeDelete(o, a.decision.Policy, a.decided)
			m.server.end(o, a.decision.Policy)
		}
		a.wrote(out, fault)
	case a.next == callDrop:
		o, out := m.server.current(k, rec)
		if out == ok {
			m.judgeDrop(o, a.decision.Drop, a.decided)
			m.server.drop(o, a.decision.Drop)
		}
		a.wrote(out, fault)
	case a.next == callRelease:
		o, out := m.server.current(k, a.live)
		if out == ok {
			released := *o
			if a.orphaning {
				m.judgeOrphaned(o, a.searched, a.writes)
				released.orphan = false
			} else {
				m.judgeRelease(o, a.decided, a.late)
				released.foreground = false
			}
			m.server.put(released)
		}
		a.released(m, out, fault)
	case a.next == callFree:
		d := a.free[0]
		o, out := m.server.current(kindOf(d.Key.Resource), d.Record)
		drop := a.toDrop()
		if out == ok {
			m.frees++
			m.server.drop(o, drop)
		}
		switch {
		case fault || out == unserved:
			a.fail()
		case out == conflict:
			a.next = callFreeRead
		default:
			a.freed(m)
		}
	case a.next == callFreeRead:
		d := a.free[0]
		free := kindOf(d.Key.Resource)
		a.answer, a.out = m.server.get(free, free.Versions[0], d.Record.Namespace, d.Record.Name)
		a.answered = true
	case a.next == callList:
		a.list(m)
	}
}

// toDrop returns what is to go from the first dependent to be freed.
func (a *attempt) toDrop() (drop []graph.Reference) {
	for _, r := range a.free[0].Record.References {
		if r.UID == a.key.UID {
			drop = append(drop, r)
		}
	}
	return drop
}

// freed goes on with the next dependent, and from the last to a search.
func (a *attempt) freed(m *model) {
	if len(a.free) > 0 {
		a.free = a.free[1:]
	}
	a.tries = 0
	a.freeNext(m)
}

func (a *attempt) freeNext(m *model) {
	for len(a.free) > 0 && len(a.toDrop()) == 0 {
		a.free = a.free[1:]
		a.tries = 0
	}
	if len(a.free) > 0 {
		if m.graph.Catalog().Resource(a.free[0].Key.Resource) == nil {
			a.fail()
			return
		}
		a.next = callFree
		if a.tries++; a.tries > maxRounds {
			a.fail()
		}
		return
	}
	a.next, a.writes, a.toList = callList, m.server.writes, nil
	for _, r := range m.graph.Catalog().Resources() {
		if r.Monitored && (r.Namespaced || a.view.Record.Namespace == "") {
			a.toList = append(a.toList, r)
		}
	}
	if a.searched = a.toList; len(a.toList) == 0 {
		a.listed(m)
	}
}

// list reads one resource for dependents.
func (a *attempt) list(m *model) {
	k := kindOf(a.toList[0].GroupResource())
	if !m.server.served[k] {
		a.fail()
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(m.server.objects)) {
		o, ns := m.server.objects[uid], a.view.Record.Namespace
		if o.storage == k.storage && (ns == "" || o.namespace == ns) && refersTo(o.record(), a.key.UID) {
			a.free = append(a.free, graph.Dependent{Key: graph.Key{Resource: k.GroupResource(), UID: uid}, Record: o.record()})
		}
	}
	if a.toList = a.toList[1:]; len(a.toList) == 0 {
		a.listed(m)
	}
}

func (a *attempt) listed(m *model) {
	if len(a.free) > 0 {
		a.freeNext(m)
		return
	}
	a.freeAll = true
	a.let(m)
}

// let has an owner's finalizer removed, now that its dependents are free.
func (a *attempt) let(m *model) {
	if a.rounds++; a.rounds > maxRounds {
		a.fail()
		return
	}
	a.next = callRelease
	m.orphaned[a.key.UID] = true
}

// released takes in the answer to the removal of a finalizer.
func (a *attempt) released(m *model, out outcome, fault bool) {
	if a.orphaning && !fault && out == conflict {
		delete(m.orphaned, a.key.UID)
		if len(kindsOf(m.storages[a.key.UID])) > 1 {
			// Two attempts, one for each resource that shows the owner: the later one's
			// conflict makes the collector forget what the earlier one did.
			m.server.forgotten[a.key.UID] = true
		}
	}
	switch {
	case fault || out == unserved:
		a.fail()
	case out == conflict && a.orphaning:
		a.next = callOwner
	case out == conflict:
		a.live = nil
		a.look(m)
	default:
		a.finish()
	}
}

func (a *attempt) wrote(out outcome, fault bool) {
	switch {
	case fault || out == unserved:
		a.fail()
	case out == conflict:
		a.next = callRead
	default:
		a.again = a.decision.Again
		a.finish()
	}
}

// take takes in the answer of a read.
func (a *attempt) take(m *model) {
	if a.out == unserved {
		a.fail()
		return
	}
	switch a.next {
	case callConfirm:
		if a.out == notFound || a.answer.uid != a.key.UID {
			m.consider(m.graph.Deleted(a.key.Resource, a.view.Record))
		} else {
			m.consider(m.graph.Confirm(a.key, a.answer.record()))
			m.queue[a.key] = true
		}
		a.finish()
		return
	case callOwner:
		if a.out == notFound || a.answer.uid != a.key.UID || !a.orphaning && !a.answer.waits() || a.orphaning && !(a.answer.deleting && a.answer.orphan) {
			a.finish()
			return
		}
		a.live = a.answer.record()
		if a.freeAll {
			a.let(m)
			return
		}
		if a.next = callRelease; a.orphaning {
			a.free = m.graph.Dependents(a.key.UID)
			slices.SortFunc(a.free, func(x, y graph.Dependent) int {
				return cmp.Or(cmp.Compare(x.Key.UID, y.Key.UID), cmp.Compare(x.Key.Resource.String(), y.Key.Resource.String()))
			})
			a.freeNext(m)
		}
		return
	case callFreeRead:
		if a.out == notFound || a.answer.uid != a.free[0].Key.UID {
			a.freed(m)
			return
		}
		a.free[0].Record = a.answer.record()
		a.freeNext(m)
		return
	case callRead:
		if a.out == notFound || a.answer.uid != a.key.UID || a.answer.deleting {
			a.finish()
			return
		}
		a.live = a.answer.record()
		a.look(m)
		return
	}
	o := a.toVerify[0]
	fact := graph.Fact{State: graph.Absent}
	if a.out == ok && a.answer.uid == o.Reference.UID {
		fact = graph.Fact{State: graph.Present, Seen: a.asked, Waiting: a.answer.waits()}
	}
	a.proved = append(a.proved, proof{o.Reference, o.At, fact})
	if fact.State == graph.Present && m.server.objects[o.Reference.UID] == nil && !m.fact(o).Proved() {
		m.stale = true
	}
	m.graph.Learn(o.Reference.UID, o.At, fact)
	if a.toVerify = a.toVerify[1:]; len(a.toVerify) == 0 {
		a.look(m)
	}
}

// fact returns what the graph has about an owner at a place.
func (m *model) fact(o graph.OwnerView) graph.Fact {
	return m.graph.ViewOf(alphas.GroupResource(), &graph.Record{Namespace: o.At.Namespace, References: []graph.Reference{o.Reference}}).Owners[0].Fact
}

func splitAPIVersion(s string) (group, version string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}
