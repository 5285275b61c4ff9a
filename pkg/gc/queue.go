package gc

import (
	"errors"
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

// newQueue returns a queue whose workqueue metrics have the name. shape is asked for
// the namespace and the number of references of each object that enters.
func newQueue(name string, shape func(graph.Key) (string, int), now func() time.Time) *queue {
	l := newLanes(shape, now)
	return &queue{
		TypedDelayingInterface: byHandle{workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[handle]{
			Name:  name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[handle]{Name: name, Queue: l}),
		}), l.done},
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

// enqueue puts in objects that there is a reason to decide about.
func (q *queue) enqueue(keys []graph.Key) {
	for _, k := range keys {
		q.Add(k)
	}
}

// succeeded forgets the failures of an object.
func (q *queue) succeeded(k graph.Key) { q.backoff.Forget(k) }
