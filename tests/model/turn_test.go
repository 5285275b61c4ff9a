package model

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// real is the code of pkg/gc, without monitors, queues and workers.
type real struct {
	*gc.Steps
	calls   context.Context
	abandon context.CancelFunc
	turns   []*turn // under way
	// passes holds the last search of each namespace; owners may share one.
	passes map[string]*pass
}

// pass is a search for dependents in the searched resources that began after so many
// writes.
type pass struct {
	of       *turn // nil once it has ended
	searched []*graph.Resource
	writes   int
}

// atOnce is the number of concurrent calls of one turn. In small worlds these are all
// calls, so that the world and not the order of a map decides which comes first.
const atOnce = 20

// newReal returns a model whose workers run the real code. It must be made, used and
// closed within one synctest bubble, which shows when every turn has reached a call.
func newReal(workers, checkEvery int, timeout decide.Timeout) *model {
	m := newModel(workers, checkEvery)
	m.timeout = timeout
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	steps, err := gc.NewSteps(gc.StepsOptions{
		Options: gc.Options{
			Config: &rest.Config{Host: "http://model", Transport: wire{}, QPS: -1}, Workers: atOnce, SyncTimeout: timeout, Log: logrus.NewEntry(log),
		},
		Now:     func() time.Time { return m.now },
		Deletes: &entrance{ready: m.queue, failed: m.delayed, later: m.timers, now: func() time.Time { return m.now }},
		Orphans: &entrance{ready: m.orphans, failed: m.orphansDelayed},
		Holds: func() error {
			if m.holds() {
				return errors.New("objects may exist that nobody serves")
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	m.graph = steps.Graph()
	m.real = &real{Steps: steps, passes: map[string]*pass{}}
	m.real.calls, m.real.abandon = context.WithCancel(context.Background())
	return m
}

// close aborts the running calls.
func (m *model) close() {
	if m.real != nil {
		m.real.abandon()
		synctest.Wait()
	}
}

// entrance is the part of a queue that the collector sees. The world decides what comes
// out of the queue.
type entrance struct {
	workqueue.TypedDelayingInterface[graph.Key] // whose other methods are never called

	mu            sync.Mutex // protects what follows from concurrent turns
	ready, failed map[graph.Key]bool
	later         map[graph.Key]time.Time
	now           func() time.Time
}

func (e *entrance) Add(k graph.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready[k] = true
}

func (e *entrance) AddAfter(k graph.Key, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case d == gc.AfterFailure:
		e.failed[k] = true
	case d <= 0:
		e.ready[k] = true
	default:
		wake(e.later, k, e.now().Add(d))
	}
}

// wake schedules an object for a time, unless it is scheduled for an earlier one.
func wake(timers map[graph.Key]time.Time, k graph.Key, at time.Time) {
	if t, set := timers[k]; !set || at.Before(t) {
		timers[k] = at
	}
}

// turn is a turn of the real code: with an object, with an owner that is being orphaned,
// or with the rings.
type turn struct {
	key                graph.Key
	orphaning, looking bool

	mu    sync.Mutex // protects what follows from concurrent calls
	calls []*request // under way
	over  bool

	// What follows is for the oracle.

	// decided is the time of the decision that is being carried out. went is when a
	// dependent had last gone by then. late is true if the object had waited long enough.
	decided, went time.Time
	late          bool
	// pass is the last search, which found no object that names the owner.
	pass *pass
}

// begin starts a turn.
func (r *real) begin(m *model, t *turn) *turn {
	ctx := context.WithValue(r.calls, turnKey{}, t)
	r.turns = append(r.turns, t)
	go func() {
		switch {
		case t.looking:
			r.LookForRings(ctx)
		case t.orphaning:
			r.Orphan(ctx, t.key)
		default:
			r.Attempt(ctx, t.key)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
	}()
	r.rest(m)
	return t
}

// rest waits until every turn has reached a call or ended, and records the new requests
// for the oracle. The end of an orphaning is recorded before the next search, because it
// rests on the one before.
func (r *real) rest(m *model) {
	synctest.Wait()
	var asked []*request
	for _, t := range r.turns {
		slices.SortStableFunc(t.calls, func(x, y *request) int { return cmp.Compare(x.place(), y.place()) })
		for _, c := range t.calls {
			if !c.asked {
				c.asked = true
				asked = append(asked, c)
			}
		}
	}
	slices.SortStableFunc(asked, func(x, y *request) int { return cmp.Compare(y.method, x.method) })
	for _, c := range asked {
		c.turn.note(m, c)
	}
	r.turns = slices.DeleteFunc(r.turns, func(t *turn) bool { return t.over })
}

func (t *turn) enter(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, r)
}

func (t *turn) leave(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = slices.DeleteFunc(t.calls, func(other *request) bool { return other == r })
}

// note records a new request of the turn for the oracle.
func (t *turn) note(m *model, r *request) {
	if m.halted && !r.reads() {
		m.fail("the collector is paused and asks to %s %s", r.method, r.place())
	}
	p := m.real.passes[r.namespace]
	if p != nil && p.of == t && !r.lists() {
		p.of = nil
	}
	switch {
	case r.lists():
		if p == nil || p.of != t {
			p = &pass{of: t, writes: m.server.writes}
			m.real.passes[r.namespace] = p
		}
		p.searched = append(p.searched, r.kind.Resource)
	case t.orphaning:
		if r.removesFinalizer() && t.pass == nil {
			t.pass = p
		}
	case r.whole: // its finalizer is to be removed
		v, shown := m.graph.View(t.key)
		t.decided, t.went = m.now, m.went[t.key]
		t.late = !shown || decide.From(m.graph, &v, m.options(), m.now).Reason == decide.TimedOut
	case !r.reads() && !r.removesFinalizer():
		t.decided = m.now
	}
}

func (t *turn) choices() int { return len(t.calls) }

// step delivers the nth call to the server, or its answer to the turn. It returns false
// if there is no such call.
func (t *turn) step(m *model, n int, fault bool) bool {
	if n >= len(t.calls) {
		return false
	}
	r := t.calls[n]
	if !r.answered {
		if fault {
			r.err = errLost
		}
		if !fault || !r.reads() {
			r.serve(m)
			return true
		}
	}
	if r.found != nil && !t.orphaning && !t.looking {
		m.noteStale(r.found.uid, graph.Coordinates{Group: r.kind.Group, Kind: r.kind.Kind, Namespace: r.namespace, Name: r.name})
	}
	close(r.reply)
	m.real.rest(m)
	return true
}

func (t *turn) ended(*model) bool { return t.over }
