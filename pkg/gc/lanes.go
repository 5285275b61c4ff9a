package gc

import (
	"container/heap"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// referencesPerTurn is for how many references of an object its namespace pays with
	// a turn: work for an object grows with them.
	referencesPerTurn = 100
	// heavy is above how many references an object comes after the others of its
	// namespace.
	heavy = 1000
	// debtsKept bounds for how many namespaces without waiting objects it is remembered
	// that they have had more than their share.
	debtsKept = 1024
	// slowTurn is how long a turn may take before its namespace counts as slow, and slowFor for how long it then does: for longer
	// than an object that fails waits for its next turn.
	slowTurn = 2 * time.Second
	slowFor  = 5 * time.Minute
	// slowKept bounds how many namespaces count as slow.
	slowKept = 1024
)

// lanes is what a queue keeps its objects in: first in, first out within a
// namespace, and one namespace after the other. Twenty thousand objects of one
// namespace do not keep ten of another waiting, nor does an object with thousands of
// references: it costs its namespace many turns (stride scheduling, Waldspurger 1995).
//
// A webhook or an aggregated API that does not answer holds a worker for as long as a call may take. So all namespaces in which
// turns take long have slowAtOnce workers together at most, and the others always have the rest.
type lanes struct {
	// shape returns an object's namespace and how many references it has.
	shape func(graph.Key) (namespace string, references int)
	now   func() time.Time

	// mu protects what follows; the workqueue has a lock of its own, but metrics and
	// reports do not hold that.
	mu          sync.Mutex
	byNamespace map[string]*lane
	turns       turns // those with objects
	// turn is the number of the turn that was last given, and pushes counts lanes that
	// have got into line.
	turn, pushes uint64
	// debts are the next turns of namespaces whose lanes are empty, if they are not due
	// yet.
	debts  map[string]uint64
	length int
	// slowAtOnce is how many objects of slow namespaces may be out at once; 0: any number.
	slowAtOnce int
	// out are the objects that have been taken and not been given back, and slowOut counts those of slow namespaces.
	out     map[handle]turnUnderWay
	slowOut int
	slow    map[string]time.Time // until when a namespace counts as slow
}

// turnUnderWay is the turn of an object that is out.
type turnUnderWay struct {
	namespace string
	since     time.Time
	slow      bool // it counts in slowOut
}

func newLanes(shape func(graph.Key) (string, int), now func() time.Time) *lanes {
	return &lanes{
		shape: shape, now: now, byNamespace: map[string]*lane{}, debts: map[string]uint64{},
		out: map[handle]turnUnderWay{}, slow: map[string]time.Time{},
	}
}

// lane is the objects of one namespace, or all that have none.
type lane struct {
	namespace    string
	light, heavy []waitingItem
	// next is the number of its next turn, and place decides between lanes with the same
	// one: who has waited longer comes first.
	next, place uint64
}

type waitingItem struct {
	key   handle
	since time.Time
	turns uint64 // that it costs
}

var _ workqueue.Queue[handle] = (*lanes)(nil)

// Touch does nothing: what is in the queue keeps its place.
func (l *lanes) Touch(handle) {}

// Push appends an object to its namespace's lane.
func (l *lanes) Push(h handle) {
	namespace, references := l.shape(h.Value())
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.byNamespace[namespace]
	if ln == nil {
		ln = &lane{namespace: namespace, next: max(l.turn+1, l.debts[namespace])}
		delete(l.debts, namespace)
		l.byNamespace[namespace] = ln
		l.lineUp(ln)
	}
	item := waitingItem{h, l.now(), 1 + uint64(references)/referencesPerTurn}
	if references > heavy {
		ln.heavy = append(ln.heavy, item)
	} else {
		ln.light = append(ln.light, item)
	}
	l.length++
}

// lineUp puts a lane in line for its next turn.
func (l *lanes) lineUp(ln *lane) {
	l.pushes++
	ln.place = l.pushes
	heap.Push(&l.turns, ln)
}

// Len returns how many objects may be taken now.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.length
	if l.full() {
		for namespace := range l.slow {
			if ln := l.byNamespace[namespace]; ln != nil && l.isSlow(namespace) {
				n -= len(ln.light) + len(ln.heavy)
			}
		}
	}
	return n
}

// waiting returns how many objects are there, those too that may not be taken yet.
func (l *lanes) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// limitSlow bounds how many objects of slow namespaces may be out at once.
func (l *lanes) limitSlow(atOnce int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowAtOnce = max(1, atOnce)
}

// full is true if no more objects of slow namespaces may be taken.
func (l *lanes) full() bool { return l.slowAtOnce > 0 && l.slowOut >= l.slowAtOnce }

func (l *lanes) isSlow(namespace string) bool { return l.now().Before(l.slow[namespace]) }

// first takes the lane whose turn it is out of the line. There is one.
func (l *lanes) first() *lane {
	var passed []*lane
	for l.full() && len(l.turns) > 1 && l.isSlow(l.turns[0].namespace) {
		passed = append(passed, heap.Pop(&l.turns).(*lane))
	}
	ln := heap.Pop(&l.turns).(*lane)
	for _, slow := range passed {
		heap.Push(&l.turns, slow)
	}
	return ln
}

// Pop takes the first object of the lane whose turn it is. There is one.
func (l *lanes) Pop() handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.first()
	l.turn = max(l.turn, ln.next) // a slow lane that was passed over comes later than it was due
	from := &ln.light
	if len(ln.light) == 0 {
		from = &ln.heavy
	}
	item := (*from)[0]
	(*from)[0] = waitingItem{}
	*from = (*from)[1:]
	l.length--
	ln.next += item.turns
	if len(ln.light)+len(ln.heavy) > 0 {
		l.lineUp(ln)
	} else {
		delete(l.byNamespace, ln.namespace)
		l.owe(ln)
	}
	t := turnUnderWay{ln.namespace, l.now(), l.isSlow(ln.namespace)}
	if t.slow {
		l.slowOut++
	}
	l.out[item.key] = t
	return item.key
}

// done ends the turn of an object that was taken. The worker has to take the next object if there is any: it may be one that
// no worker was allowed to take before, so that none waits for it.
func (l *lanes) done(h handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, out := l.out[h]
	if !out {
		return
	}
	delete(l.out, h)
	if t.slow {
		l.slowOut--
	}
	now := l.now()
	if now.Sub(t.since) < slowTurn {
		return
	}
	if len(l.slow) >= slowKept {
		maps.DeleteFunc(l.slow, func(_ string, until time.Time) bool { return !now.Before(until) })
	}
	if len(l.slow) < slowKept {
		l.slow[t.namespace] = now.Add(slowFor)
	}
}

// owe remembers when it is an empty lane's turn again.
func (l *lanes) owe(ln *lane) {
	if ln.next <= l.turn+1 {
		return
	}
	if len(l.debts) >= debtsKept {
		for namespace, next := range l.debts {
			if next <= l.turn+1 {
				delete(l.debts, namespace)
			}
		}
	}
	if len(l.debts) < debtsKept {
		l.debts[ln.namespace] = ln.next
	}
}

// age returns how long the object that has waited longest has waited.
func (l *lanes) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var age time.Duration
	now := l.now()
	for _, ln := range l.turns {
		for _, waiting := range [][]waitingItem{ln.light, ln.heavy} {
			if len(waiting) > 0 {
				age = max(age, now.Sub(waiting[0].since))
			}
		}
	}
	return age
}

// turns is a heap of lanes, the one whose turn is next first.
type turns []*lane

func (t turns) Len() int { return len(t) }
func (t turns) Less(i, j int) bool {
	return t[i].next < t[j].next || t[i].next == t[j].next && t[i].place < t[j].place
}
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)   { *t = append(*t, x.(*lane)) }
func (t *turns) Pop() any {
	last := len(*t) - 1
	ln := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return ln
}
