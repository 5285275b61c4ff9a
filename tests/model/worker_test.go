package model

import (
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
	a.decide(m)
	return a
}

func (a *attempt) finish() { a.next = idle }

func (a *attempt) fail() { a.next, a.failed = idle, true }

func (a *attempt) decide(m *model) {
	if a.rounds++; a.rounds > maxRounds {
		a.fail()
		return
	}
	d := decide.Decide(&a.view, m.now)
	a.decision = d
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
		if a.live == nil {
			a.next = callRead
		}
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
	a.view.Owners = slices.Clone(a.view.Owners)
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		for _, p := range a.proved {
			if p.ref.UID == o.Reference.UID && p.at == o.At && o.Fact.State == graph.Unproved {
				o.Fact = p.fact
			}
		}
	}
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
	case fault && (a.next == callVerify || a.next == callRead):
		a.fail()
	case a.next == callVerify:
		o := a.toVerify[0]
		_, version := splitAPIVersion(o.Reference.APIVersion)
		a.asked = m.now
		a.answer, a.out = m.server.get(kindOf(o.Resource.GroupResource()), version, o.At.Namespace, o.At.Name)
		a.answered = true
	case a.next == callRead:
		a.answer, a.out = m.server.get(k, k.Versions[0], rec.Namespace, rec.Name)
		a.answered = true
	case a.next == callDelete:
		o, out := m.server.current(k, rec)
		if out == ok {
			m.judgeDelete(o)
			m.server.end(o)
		}
		a.wrote(out, fault)
	case a.next == callDrop:
		o, out := m.server.current(k, rec)
		if out == ok {
			m.judgeDrop(o, a.decision.Drop)
			kept := *o
			kept.refs = slices.DeleteFunc(slices.Clone(o.refs), func(r graph.Reference) bool { return slices.Contains(a.decision.Drop, r) })
			m.server.put(kept)
		}
		a.wrote(out, fault)
	}
}

func (a *attempt) wrote(out outcome, fault bool) {
	switch {
	case fault || out == unserved:
		a.fail()
	case out == conflict:
		a.next = callRead
	default:
		if out == ok {
			a.again = a.decision.Again
		}
		a.finish()
	}
}

// take takes in the answer of a read.
func (a *attempt) take(m *model) {
	if a.out == unserved {
		a.fail()
		return
	}
	if a.next == callRead {
		if a.out == notFound || a.answer.uid != a.key.UID {
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
		fact = graph.Fact{State: graph.Present, Seen: a.asked}
	}
	a.proved = append(a.proved, proof{o.Reference, o.At, fact})
	if fact.State == graph.Present && m.server.objects[o.Reference.UID] == nil && !m.known(o).Proved() {
		m.stale = true
	}
	m.graph.Learn(o.Reference.UID, o.At, fact)
	if a.toVerify = a.toVerify[1:]; len(a.toVerify) == 0 {
		a.look(m)
	}
}

func splitAPIVersion(s string) (group, version string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}
