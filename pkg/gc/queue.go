package gc

import (
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// retryAtLeast and retryAtMost bound the delay after a failure, which doubles
	// for each further one of the same object. An attempt that fails has made two
	// calls as a rule, a read and a write: an object that cannot make progress costs
	// a call a minute.
	retryAtLeast = 10 * time.Millisecond
	retryAtMost  = 2 * time.Minute
	// stormAtMost bounds the delay for an object that only changes too fast.
	stormAtMost = 2 * time.Second
)

// The queues have the names that they have in kube-controller-manager.
const (
	deleteQueue = "garbage_collector_attempt_to_delete"
	orphanQueue = "garbage_collector_attempt_to_orphan"
)

// queue holds the objects that there is a reason to look at, each once, and hands
// them out in turns: one of each namespace that has any. It may be used
// concurrently.
type queue struct {
	workqueue.TypedDelayingInterface[graph.Key]
	lanes   *lanes
	backoff workqueue.TypedRateLimiter[graph.Key]
}

// newQueue returns a queue whose workqueue metrics have the name. namespaceOf is
// asked about each object that enters.
func newQueue(name string, namespaceOf func(graph.Key) string, now func() time.Time) *queue {
	l := &lanes{namespaceOf: namespaceOf, now: now, byNamespace: map[string]*lane{}}
	return &queue{
		TypedDelayingInterface: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[graph.Key]{
			Name:  name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[graph.Key]{Name: name, Queue: l}),
		}),
		lanes:   l,
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[graph.Key](retryAtLeast, retryAtMost),
	}
}

// retry puts an object in again after a failure, later each time, and returns how
// often it has failed.
func (q *queue) retry(k graph.Key, err error) (failures int) {
	delay := q.backoff.When(k)
	if errors.Is(err, errKeepsChanging) {
		delay = min(delay, stormAtMost)
	}
	q.AddAfter(k, delay)
	return q.backoff.NumRequeues(k)
}

// succeeded forgets the failures of an object.
func (q *queue) succeeded(k graph.Key) { q.backoff.Forget(k) }

// lanes is what a queue keeps its objects in: first in, first out within a
// namespace, and one namespace after the other. Twenty thousand objects of one
// namespace do not keep ten of another waiting.
type lanes struct {
	namespaceOf func(graph.Key) string
	now         func() time.Time

	// mu protects what follows; the workqueue has a lock of its own, but metrics and
	// reports do not hold that.
	mu          sync.Mutex
	byNamespace map[string]*lane
	turns       []*lane // those with objects; the first is next
	length      int
}

// lane is the objects of one namespace, or all that have none.
type lane struct {
	namespace string
	waiting   []waitingItem
}

type waitingItem struct {
	key   graph.Key
	since time.Time
}

var _ workqueue.Queue[graph.Key] = (*lanes)(nil)

// Touch does nothing: what is in the queue keeps its place.
func (l *lanes) Touch(graph.Key) {}

// Push appends an object to its namespace's lane.
func (l *lanes) Push(k graph.Key) {
	ns := l.namespaceOf(k)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.byNamespace[ns]
	if ln == nil {
		ln = &lane{namespace: ns}
		l.byNamespace[ns] = ln
		l.turns = append(l.turns, ln)
	}
	ln.waiting = append(ln.waiting, waitingItem{k, l.now()})
	l.length++
}

// Len returns how many objects are there.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// Pop takes the first object of the lane whose turn it is. There is one.
func (l *lanes) Pop() graph.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.turns[0]
	l.turns[0] = nil
	l.turns = l.turns[1:]
	k := ln.waiting[0].key
	ln.waiting[0] = waitingItem{}
	ln.waiting = ln.waiting[1:]
	l.length--
	if len(ln.waiting) > 0 {
		l.turns = append(l.turns, ln)
	} else {
		delete(l.byNamespace, ln.namespace)
	}
	return k
}

// age returns how long the object that has waited longest has waited.
func (l *lanes) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var age time.Duration
	now := l.now()
	for _, ln := range l.turns {
		age = max(age, now.Sub(ln.waiting[0].since))
	}
	return age
}
