package gc

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// reads lets attempts share the live reads of owners: while one reads, the others
// that need the same are put aside.
type reads struct {
	mu      sync.Mutex
	pending map[ownerRead][]graph.Key // who waits for a read under way
}

// ownerRead names what is read.
type ownerRead struct {
	uid        types.UID
	apiVersion string
	at         graph.Coordinates
}

// begin returns true if the caller is to read, and then to call end. Otherwise
// somebody is reading, and k is among what their end returns.
func (r *reads) begin(what ownerRead, k graph.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting, busy := r.pending[what]; busy {
		r.pending[what] = append(waiting, k)
		return false
	}
	if r.pending == nil {
		r.pending = map[ownerRead][]graph.Key{}
	}
	r.pending[what] = nil
	return true
}

// end returns who has been put aside since begin.
func (r *reads) end(what ownerRead) []graph.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.pending[what]
	delete(r.pending, what)
	return waiting
}
