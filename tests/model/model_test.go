package model

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// epoch is the time at which every world begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// model is a world: the server, the monitors, the graph and the workers, and beside them
// the effect of the users' actions alone.
type model struct {
	server   *server
	monitors []*monitor
	graph    *graph.Graph
	// catalog holds the kinds in the graph's catalog, once discovery has run.
	catalog    which
	discovered bool
	queue      map[graph.Key]bool
	delayed    map[graph.Key]bool // failed, to be retried
	// orphans and orphansDelayed are the same for orphaning attempts.
	orphans, orphansDelayed map[graph.Key]bool
	// orphaned holds the owners that the collector remembers as orphaned.
	orphaned map[types.UID]bool
	// freed holds, for each owner that is being orphaned, the freed dependents and the
	// versions that they had before. unlisted holds, for each namespace, the resource that
	// could not be listed in the last search.
	freed    map[graph.Key]map[graph.Key]string
	unlisted map[string]schema.GroupResource
	// plain is true as long as only background deletions have been requested.
	plain bool
	// storages holds the storage of every object, also of those that are gone.
	storages  map[types.UID]string
	timers    map[graph.Key]time.Time
	workers   []*job // nil: idle
	real      *real  // the real code, if it does the work; nil if its copy does
	now       time.Time
	users     map[types.UID]*object // the server's objects as they would be without a collector
	witnessed map[[2]types.UID]witness
	// detects is true if the collector searches for rings; waitingChanged if a search may
	// find something new; lookAgain if the last search could not break all rings that it
	// found.
	detects, waitingChanged, lookAgain bool
	breaking                           worker // a search for rings; nil if none is under way
	// within is for the oracle: the references that were within a ring at any moment since
	// the search began. It was last updated after writesSeen writes.
	within     map[within]bool
	writesSeen int
	// halted is true while the collector is paused, and pauses says when it was.
	halted bool
	pauses decide.Pauses
	// timeout is the timeout of foreground deletions. went is, for each object that the
	// graph knows to wait, when the graph last learnt that a dependent had gone.
	timeout decide.Timeout
	went    map[graph.Key]time.Time
	// checkEvery is how often the graph's invariants are verified, in steps.
	checkEvery, steps                           int
	deletes, drops, releases, orphanings, frees int
	unblocks, timedOut, ends                    int
	// stale is true once the graph has learnt of an owner's presence after its deletion
	// without a proof of the deletion: nothing named the owner when its DELETED event
	// came. The graph believes the presence for decide.RecheckAfter; it cannot know
	// better.
	stale bool
	// record, if not nil, collects the steps, and log the calls.
	record *[]action
	log    *[]string
	// wrong is the first failure.
	wrong error
}

func newModel(workers, checkEvery int) *model {
	m := &model{
		server: newServer(), graph: graph.New(), now: epoch, checkEvery: checkEvery,
		queue: map[graph.Key]bool{}, delayed: map[graph.Key]bool{}, orphans: map[graph.Key]bool{}, orphansDelayed: map[graph.Key]bool{},
		orphaned: map[types.UID]bool{}, plain: true, detects: true, went: map[graph.Key]time.Time{}, freed: map[graph.Key]map[graph.Key]string{}, unlisted: map[string]schema.GroupResource{}, storages: map[types.UID]string{}, timers: map[graph.Key]time.Time{},
		workers: make([]*job, workers), users: map[types.UID]*object{}, witnessed: map[[2]types.UID]witness{},
	}
	for _, k := range allKinds {
		m.monitors = append(m.monitors, &monitor{kind: k})
	}
	m.server.tell = func(o *object, ended bool) {
		for _, mon := range m.monitors {
			if mon.kind.storage == o.storage {
				mon.receive(o, ended)
			}
		}
	}
	return m
}

// apply takes a step and returns false if it is not possible now.
func (m *model) apply(a action) bool {
	if !m.take(a) {
		return false
	}
	if m.real == nil {
		m.waitingChanged = m.graph.TakeWaitingChanged() || m.waitingChanged
	}
	if m.breaking != nil {
		m.noteRings()
	}
	if m.record != nil {
		*m.record = append(*m.record, a)
	}
	if m.steps++; m.checkEvery > 0 && m.steps%m.checkEvery == 0 {
		m.check()
	}
	return true
}

// take is apply without the check.
func (m *model) take(a action) bool {
	switch a.op {
	case opDeliver, opRelist, opSweep, opResync, opRetire:
		return m.observe(a)
	case opBegin, opOrphan, opStep:
		return m.work(a)
	case opLook:
		return m.lookForRings(a.n%2 == 1)
	case opBreak:
		return m.breaking != nil && m.lookOn(a.n, a.held)
	case opExpire:
		return m.expire(a.key)
	case opHalt, opGoOn:
		return m.halt(a.op == opHalt)
	case opTick:
		m.pass(time.Duration(a.n) * time.Minute)
	case opPause:
		m.pause(a.n)
	default:
		return m.userStep(a)
	}
	return true
}

func (m *model) check() {
	if err := m.graph.Check(); err != nil {
		m.fail("the graph's invariants are broken: %v", err)
	}
}

func (m *model) fail(format string, args ...any) {
	if m.wrong == nil {
		m.wrong = fmt.Errorf(format, args...)
	}
}

// called logs a call.
func (m *model) called(format string, args ...any) {
	if m.log != nil {
		*m.log = append(*m.log, fmt.Sprintf(format, args...))
	}
}

// pass lets time pass.
func (m *model) pass(d time.Duration) {
	for _, mon := range m.monitors {
		if mon.healthy() && len(mon.stream) == 0 && d > 0 {
			mon.complete, mon.initial = m.now, 0
		}
	}
	m.now = m.now.Add(d)
	m.server.now = m.now
	for k, t := range m.timers {
		if !t.After(m.now) {
			delete(m.timers, k)
			m.queue[k] = true
		}
	}
}

// halt pauses or resumes the collector. It returns false if that changes nothing. Only the
// real code knows pauses.
func (m *model) halt(halt bool) bool {
	if m.real == nil || m.halted == halt {
		return false
	}
	if m.halted = halt; halt {
		m.pauses = append(m.pauses, decide.Pause{From: m.now})
	} else {
		m.pauses[len(m.pauses)-1].To = m.now
	}
	m.real.Pause(halt)
	return true
}

// pausedBetween returns for how long the collector was paused between two times.
func (m *model) pausedBetween(from, to time.Time) (total time.Duration) {
	for _, p := range m.pauses {
		begun, ended := p.From, p.To
		if begun.Before(from) {
			begun = from
		}
		if ended.IsZero() || ended.After(to) {
			ended = to
		}
		if ended.After(begun) {
			total += ended.Sub(begun)
		}
	}
	return total
}

// pause delivers everything that was sent and then lets quarters of a second pass.
func (m *model) pause(quarters int) {
	for _, mon := range m.monitors {
		for len(mon.stream) > 0 {
			m.witness(mon)
			m.consider(mon.deliver(m.graph, m.now))
		}
	}
	m.pass(time.Duration(quarters) * 250 * time.Millisecond)
}
