package gc

import (
	"time"
	"unique"

	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// handle stands for a key in a sixth of its bytes.
type handle = unique.Handle[graph.Key]

// byHandle is a queue of keys over one of handles. client-go keeps what waits in four maps, and Go's maps keep the room that they have
// ever needed: after a start with 100,000 objects that would be 25 MB of keys.
type byHandle struct {
	workqueue.TypedDelayingInterface[handle]
	// done is told of each key that is given back, before the queue is.
	done func(handle)
}

func (q byHandle) Add(k graph.Key) { q.TypedDelayingInterface.Add(unique.Make(k)) }

func (q byHandle) AddAfter(k graph.Key, d time.Duration) {
	q.TypedDelayingInterface.AddAfter(unique.Make(k), d)
}

func (q byHandle) Get() (k graph.Key, shutdown bool) {
	h, shutdown := q.TypedDelayingInterface.Get()
	if shutdown {
		return graph.Key{}, true
	}
	return h.Value(), false
}

func (q byHandle) Done(k graph.Key) {
	h := unique.Make(k)
	q.done(h)
	q.TypedDelayingInterface.Done(h)
}
