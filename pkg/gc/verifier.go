package gc

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

	mu      sync.Mutex
	pending map[ownerRead][]graph.Key // who waits for a read under way
}

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
// read has ended. An owner that cannot be read does not keep the others from being read.
func (v *verifier) verify(ctx context.Context, k graph.Key, owners []graph.OwnerView) (map[ownerPlace]graph.Fact, error) {
	proved := make(map[ownerPlace]graph.Fact, len(owners))
	var failed error
	aside := false
	for _, o := range owners {
		place := ownerPlace{o.Reference.UID, o.At}
		r := ownerRead{place, o.Reference.APIVersion}
		if !v.begin(r, k) {
			aside = true
			continue
		}
		fact, err := v.read(ctx, o)
		if err == nil {
			proved[place] = fact
		} else if failed == nil {
			failed = err
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
	}
	return proved, nil
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
