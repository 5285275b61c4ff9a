package gc

import (
	"container/heap"
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
)

// lanes is what a queue keeps its objects in: first in, first out within a
// namespace, and one namespace after the other. Twenty thousand objects of one
// namespace do not keep ten of another waiting, nor does an object with thousands of
// references: it costs its namespace many turns (stride scheduling, Waldspurger 1995).
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
}

func newLanes(shape func(graph.Key) (string, int), now func() time.Time) *lanes {
	return &lanes{shape: shape, now: now, byNamespace: map[string]*lane{}, debts: map[string]uint64{}}
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

// Len returns how many objects are there.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// Pop takes the first object of the lane whose turn it is. There is one.
func (l *lanes) Pop() handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := heap.Pop(&l.turns).(*lane)
	l.turn = ln.next
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
	return item.key
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
