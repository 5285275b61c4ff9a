package gc

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// verifier reads owners live. Attempts share the reads: while one reads an owner, the
// others that need it are put aside.
type verifier struct {
	graph *graph.Graph
	actor *act.Actor
	queue *queue // of those that are put aside
	now   func() time.Time

	// failed holds when a read of an owner last failed; of many the oldest are forgotten.
	failed *lru.Cache

	mu      sync.Mutex
	pending map[ownerRead][]graph.Key // who waits for a read under way
}

const (
	// verifyFor is how long the reads of one attempt may take before others have their turn. One that hangs takes longer.
	verifyFor = time.Second
	// failedKept bounds verifier.failed.
	failedKept = 1000
)

// ownerPlace is where a reference says that its owner is.
type ownerPlace struct {
	uid types.UID
	at  graph.Coordinates
}

// ownerRead names what is read.
type ownerRead struct {
	ownerPlace
	apiVersion string
}

// verify reads owners of an object, tells the graph, and returns what the reads have
// proved. An owner that another attempt is reading at the moment is not waited for, which
// would hold a worker: the error is errPutAside then, and the object comes back when that
// read has ended. An owner that cannot be read does not keep the others from being read: those whose
// reads have failed come last, and if reading takes long the rest is left for the next turn (errTurnOver).
func (v *verifier) verify(ctx context.Context, k graph.Key, owners []graph.OwnerView) (map[ownerPlace]graph.Fact, error) {
	proved := make(map[ownerPlace]graph.Fact, len(owners))
	var failed error
	aside, over := false, false
	began := v.now()
	for _, o := range v.failedLast(owners) {
		if v.now().Sub(began) >= verifyFor {
			over = true
			break
		}
		r := readOf(&o)
		place := r.ownerPlace
		if !v.begin(r, k) {
			aside = true
			continue
		}
		fact, err := v.read(ctx, o)
		if err == nil {
			proved[place] = fact
			v.failed.Remove(r)
		} else {
			v.failed.Add(r, v.now())
			failed = cmp.Or(failed, err)
		}
		for _, waiting := range v.end(r) {
			if err == nil {
				v.queue.Add(waiting)
			} else {
				v.queue.retry(waiting, err) // it would fail as well
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case failed != nil:
		return proved, failed
	case aside:
		return proved, errPutAside
	case over:
		return proved, errTurnOver
	}
	return proved, nil
}

func readOf(o *graph.OwnerView) ownerRead {
	return ownerRead{ownerPlace{o.Reference.UID, o.At}, o.Reference.APIVersion}
}

// failedLast sorts owners: those whose reads have not failed in their order, then the others, whose reads failed last at the end.
func (v *verifier) failedLast(owners []graph.OwnerView) []graph.OwnerView {
	if v.failed.Len() == 0 {
		return owners
	}
	at := make(map[ownerRead]time.Time, len(owners))
	for i := range owners {
		r := readOf(&owners[i])
		if when, failed := v.failed.Get(r); failed {
			at[r] = when.(time.Time)
		}
	}
	return slices.SortedStableFunc(slices.Values(owners), func(a, b graph.OwnerView) int { return at[readOf(&a)].Compare(at[readOf(&b)]) })
}

// read reads one owner, unless somebody has since the object's view was taken.
func (v *verifier) read(ctx context.Context, o graph.OwnerView) (graph.Fact, error) {
	o.Fact = v.graph.Known(o.Reference.UID, o.At)
	if decide.Judge(&o, o.At.Namespace, v.now()) != decide.Unverified {
		return o.Fact, nil
	}
	fact, err := v.actor.Verify(ctx, o, v.now())
	if err == nil {
		v.graph.Learn(o.Reference.UID, o.At, fact)
	}
	return fact, err
}

// begin returns true if the caller is to read, and then to call end. Otherwise
// somebody is reading, and k is among what their end returns.
func (v *verifier) begin(what ownerRead, k graph.Key) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if waiting, busy := v.pending[what]; busy {
		v.pending[what] = append(waiting, k)
		return false
	}
	if v.pending == nil {
		v.pending = map[ownerRead][]graph.Key{}
	}
	v.pending[what] = nil
	return true
}

// end returns who has been put aside since begin.
func (v *verifier) end(what ownerRead) []graph.Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	waiting := v.pending[what]
	delete(v.pending, what)
	return waiting
}
