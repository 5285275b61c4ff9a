package gc

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tally counts the objects that the collector has deleted, by resource, for as
// long as the resource has a monitor. What a worker counts later than that is dropped:
// nobody would take it away again.
type tally struct {
	mu sync.Mutex
	n  map[schema.GroupResource]map[metav1.DeletionPropagation]uint64
	// all counts every object, also those of resources that have no monitor any more.
	all int64
}

func (t *tally) begin(gr schema.GroupResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[schema.GroupResource]map[metav1.DeletionPropagation]uint64{}
	}
	t.n[gr] = map[metav1.DeletionPropagation]uint64{}
}

func (t *tally) end(gr schema.GroupResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.n, gr)
}

func (t *tally) add(gr schema.GroupResource, p metav1.DeletionPropagation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	if n := t.n[gr]; n != nil {
		n[p]++
	}
}

func (t *tally) count(gr schema.GroupResource, p metav1.DeletionPropagation) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[gr][p]
}

// total returns how many objects the collector has deleted.
func (t *tally) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}
