package observe

import (
	"errors"
	"strconv"
	"sync/atomic"
)

// ErrStoreWentBack means that the store has lost commits that the collector has
// seen: a backup was restored, or a database failed over to a copy that lagged. An
// owner whose end was seen may exist again, so nothing that was proved counts any
// more.
var ErrStoreWentBack = errors.New("the store's resourceVersion went back: commits that were seen are lost")

// revision is the highest resourceVersion that a monitor has seen. Resource
// versions of one resource can be compared as numbers (KEP-5504); one that is no
// number, as an aggregated server may have, is left out.
type revision struct{ highest atomic.Uint64 }

// note raises the revision.
func (r *revision) note(resourceVersion string) {
	if v, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		r.raise(v)
	}
}

func (r *revision) raise(v uint64) {
	for {
		old := r.highest.Load()
		if v <= old || r.highest.CompareAndSwap(old, v) {
			return
		}
	}
}

// wentBack is true if a list that was read from a quorum is older than what has
// been seen before.
func (r *revision) wentBack(resourceVersion string) bool {
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && v < r.highest.Load()
}
