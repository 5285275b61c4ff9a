package model

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// These bounds are those of pkg/gc.
const (
	maxRounds      = 8
	maxHeavyRounds = 2
	heavy          = 1000
	freedPerTurn   = 500
	passes         = 5
)

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

// attempt is the attempt of pkg/gc/attempt.go as a state machine. It stops before each
// call and again before it processes the answer, so that anything can happen meanwhile.
type attempt struct {
	key      graph.Key
	view     graph.View
	live     *graph.Record // nil while the graph's record is sufficient
	proved   []proof
	rounds   int
	decision decide.Decision

	next call
	// toVerify holds the owners that are still to be read in this round. unread is true
	// if the read of one of them failed.
	toVerify []graph.OwnerView
	unread   bool
	// target is the object as it was read before the removal of its finalizer.
	target *object
	// answered is true between a read and the processing of its answer.
	answered bool
	answer   *object
	out      outcome
	asked    time.Time // when the read of an owner began
	decided  time.Time
	went     time.Time // when a dependent had last gone at the time of the decision

	// orphaning is true for an orphaning attempt. The fields that follow belong to it.
	orphaning bool
	// free holds the dependents to be freed. freeing is the first of them as it was last
	// read, and tries is how often it has been tried.
	free    []graph.Node
	freeing *graph.Record
	tries   int
	// over is true if there are more dependents than a turn frees.
	over bool
	// unserved is true if a known dependent is of an unserved kind: then the owner is not
	// released.
	unserved bool
	searches int
	toList   []*graph.Resource
	pass     *pass // the last search
	letting  bool  // only the finalizer is left to be removed

	// How it ended, once next is idle. turnOver is true if it is to continue in another
	// turn.
	failed, turnOver bool
	again            time.Time
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

// complete adds to the view the facts that the graph does not have.
func (a *attempt) complete(m *model) {
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

// finish ends an attempt that has nothing left to do.
func (a *attempt) finish() { a.next, a.again = idle, a.decision.Again }

func (a *attempt) fail() { a.next, a.failed = idle, true }

func (a *attempt) endTurn() { a.next, a.turnOver = idle, true }

func (a *attempt) decide(m *model) {
	most := maxRounds
	if len(a.view.Owners) > heavy {
		most = maxHeavyRounds
	}
	if a.rounds++; a.rounds > most {
		a.fail()
		return
	}
	d := decide.From(m.graph, &a.view, m.options(), m.now)
	a.decision, a.decided, a.went = d, m.now, m.went[a.key]
	switch d.Action {
	case decide.Nothing:
		a.finish()
	case decide.Verify:
		a.next, a.toVerify, a.unread = callVerify, d.Verify, false
		a.verifyNext(m)
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

// verifyNext continues with the next owner to be read, and after the last one with a
// decision. An owner that another attempt has read since the view was taken is not read
// again.
func (a *attempt) verifyNext(m *model) {
	for len(a.toVerify) > 0 {
		o := a.toVerify[0]
		o.Fact = m.graph.Known(o.Reference.UID, o.At)
		if decide.Judge(&o, o.At.Namespace, m.now) == decide.Unverified {
			a.asked = m.now
			return
		}
		a.proved = append(a.proved, proof{o.Reference, o.At, o.Fact})
		a.toVerify = a.toVerify[1:]
	}
	switch {
	case a.unread:
		a.fail()
	case a.decision.Unverified > 0:
		a.endTurn()
	default:
		a.renew(m)
	}
}

// renew takes a new view and decides.
func (a *attempt) renew(m *model) {
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

// gone tells the graph that the server has no such object.
func (a *attempt) gone(m *model) { m.gone(a.key, a.view.Record) }

func (m *model) gone(k graph.Key, rec *graph.Record) {
	m.noteWent(k)
	m.consider(m.graph.Deleted(k.Resource, rec, m.now))
}

func (a *attempt) choices() int { return 1 }

// step makes the call, or processes its answer.
func (a *attempt) step(m *model, _ int, fault bool) bool {
	a.move(m, fault)
	return true
}

func (a *attempt) move(m *model, fault bool) {
	k, rec := kindOf(a.key.Resource), a.view.Record
	switch {
	case a.answered:
		a.answered = false
		a.take(m)
	case fault && a.next == callVerify:
		a.unread = true
		a.toVerify = a.toVerify[1:]
		a.verifyNext(m)
	case fault && a.next == callList:
		a.cannotList(m)
	case fault && (a.next == callRead || a.next == callConfirm || a.next == callOwner || a.next == callFreeRead):
		a.fail()
	case a.next == callVerify:
		o := a.toVerify[0]
		_, version := splitAPIVersion(o.Reference.APIVersion)
		a.answer, a.out = m.get(kindOf(o.Resource.GroupResource()), version, o.At.Namespace, o.At.Name, false)
		a.answered = true
	case a.next == callRead || a.next == callConfirm || a.next == callOwner:
		a.answer, a.out = m.get(k, k.Versions[0], rec.Namespace, rec.Name, a.next == callOwner && !a.orphaning)
		a.answered = true
	case a.next == callDelete:
		m.called("delete %s %s %s %s %s", k.Versions[0], place(k, rec.Namespace, rec.Name), rec.UID, rec.ResourceVersion, a.decision.Policy)
		o, out := m.server.current(k, rec)
		if out == ok {
			m.judgeDelete(o, a.decision.Policy, a.decided)
			m.server.end(o, a.decision.Policy)
		}
		a.wrote(m, out, fault)
	case a.next == callDrop:
		o, out := m.patch(k, rec, "references %v", without(rec.References, a.decision.Drop))
		if out == ok {
			m.judgeDrop(o, a.decision.Drop, a.decided)
			m.server.drop(o, a.decision.Drop)
		}
		a.wrote(m, out, fault)
	case a.next == callRelease:
		o, out := m.patch(k, a.target.record(), "finalizers %v", a.target.without(a.orphaning).metadata().Finalizers)
		if out == ok {
			if a.orphaning {
				m.judgeOrphaned(o, a.pass)
			} else {
				m.judgeRelease(o, a.decided, a.went, a.decision.Reason == decide.TimedOut)
			}
			m.server.put(*o.without(a.orphaning))
		}
		a.released(m, out, fault)
	case a.next == callFree:
		drop := a.toDrop()
		o, out := m.patch(kindOf(a.free[0].Key.Resource), a.freeing, "references %v", without(a.freeing.References, drop))
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
		free := kindOf(a.free[0].Key.Resource)
		a.answer, a.out = m.get(free, free.Versions[0], a.freeing.Namespace, a.freeing.Name, false)
		a.answered = true
	case a.next == callList:
		a.list(m)
	}
}

// get reads from the server: the whole object, or only its metadata.
func (m *model) get(k *kind, version, namespace, name string, whole bool) (*object, outcome) {
	m.called("get %s %s, whole: %v", version, place(k, namespace, name), whole)
	return m.server.get(k, version, namespace, name)
}

// patch logs a patch and finds its object.
func (m *model) patch(k *kind, rec *graph.Record, format string, args ...any) (*object, outcome) {
	m.called("patch %s %s %s %s "+format, append([]any{k.Versions[0], place(k, rec.Namespace, rec.Name), rec.UID, rec.ResourceVersion}, args...)...)
	return m.server.current(k, rec)
}

// wrote processes the answer to a write of the object itself.
func (a *attempt) wrote(m *model, out outcome, fault bool) {
	switch {
	case fault || out == unserved:
		a.fail()
	case out == conflict:
		a.next = callRead
	case out == notFound:
		a.gone(m)
		a.finish()
	default:
		a.finish()
	}
}

// released processes the answer to the removal of a finalizer.
func (a *attempt) released(m *model, out outcome, fault bool) {
	if a.orphaning && !fault && out == conflict {
		delete(m.orphaned, a.key.UID)
		m.forgetOrphaned(a.key.UID)
	}
	switch {
	case fault || out == unserved:
		a.fail()
	case out == conflict && a.orphaning:
		a.next = callOwner
	case out == conflict:
		a.renew(m)
	default:
		a.finish()
		if a.orphaning {
			delete(m.freed, a.key)
		}
	}
}

// forgetOrphaned records for the oracle that the collector has forgotten an orphaning. If
// two resources show the owner, there are two attempts, and a conflict of the later one
// makes the collector forget the earlier one's result.
func (m *model) forgetOrphaned(owner types.UID) {
	if len(kindsOf(m.storages[owner])) > 1 {
		m.server.forgotten[owner] = true
	}
}

// take processes the answer of a read.
func (a *attempt) take(m *model) {
	switch {
	case a.next == callVerify:
		a.verified(m)
		return
	case a.out == unserved:
		a.fail()
		return
	case a.next == callFreeRead:
		if a.out == notFound || a.answer.uid != a.free[0].Key.UID {
			m.gone(a.free[0].Key, a.freeing)
			a.freed(m)
			return
		}
		a.freeing = a.answer.record()
		a.freeOne(m)
		return
	case a.out == notFound || a.answer.uid != a.key.UID:
		a.gone(m)
		if a.orphaning {
			delete(m.freed, a.key)
		}
		a.finish()
		return
	}
	switch a.next {
	case callConfirm:
		m.consider(m.graph.Confirm(a.key, a.answer.record(), m.now))
		m.queue[a.key] = true
		a.finish()
	case callRead:
		if a.answer.deleting {
			a.finish()
			return
		}
		a.live = a.answer.record()
		a.renew(m)
	case callOwner:
		a.target = a.answer
		switch {
		case a.orphaning:
			a.ownerRead(m)
		case !a.answer.waits():
			a.finish()
		default:
			a.next = callRelease
		}
	}
}

// verified processes the answer to the read of an owner.
func (a *attempt) verified(m *model) {
	o := a.toVerify[0]
	a.toVerify = a.toVerify[1:]
	if a.out == unserved {
		a.unread = true
		a.verifyNext(m)
		return
	}
	fact := graph.Fact{State: graph.Absent}
	if a.out == ok && a.answer.uid == o.Reference.UID {
		fact = graph.Fact{State: graph.Present, Seen: a.asked}
		if rec := a.answer.record(); rec.WaitingForDependents() {
			fact.Waiting, fact.Version = true, rec.ResourceVersion
		}
		m.noteStale(o.Reference.UID, o.At)
	}
	a.proved = append(a.proved, proof{o.Reference, o.At, fact})
	m.graph.Learn(o.Reference.UID, o.At, fact)
	a.verifyNext(m)
}

// noteStale records for the oracle that the graph is about to learn of an owner's
// presence although the owner is gone and the graph has no proof of that.
func (m *model) noteStale(owner types.UID, at graph.Coordinates) {
	if m.server.objects[owner] == nil && !m.graph.Known(owner, at).Proved() {
		m.stale = true
	}
}

func splitAPIVersion(s string) (group, version string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}
