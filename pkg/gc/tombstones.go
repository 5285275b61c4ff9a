package gc

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// tombstones remember the owners that were deleted with propagation policy Orphan, for
// dependents that turn up later. They are bounded for each namespace of owners: the
// oldest of a namespace are forgotten. They may be used concurrently.
type tombstones struct {
	mu          sync.Mutex
	uids        map[types.UID]struct{}
	byNamespace map[string]*lru.Cache
}

// tombstonesKept is how many owners of one namespace are remembered.
const tombstonesKept = 10_000

func newTombstones() *tombstones {
	return &tombstones{uids: map[types.UID]struct{}{}, byNamespace: map[string]*lru.Cache{}}
}

func (t *tombstones) add(namespace string, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.byNamespace[namespace]
	if kept == nil {
		kept = lru.NewWithEvictionFunc(tombstonesKept, func(uid lru.Key, _ any) { delete(t.uids, uid.(types.UID)) })
		t.byNamespace[namespace] = kept
	}
	kept.Add(uid, nil)
	t.uids[uid] = struct{}{}
}

// remove forgets an owner that was not deleted after all.
func (t *tombstones) remove(namespace string, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept := t.byNamespace[namespace]; kept != nil {
		kept.Remove(uid) // which evicts it
		if kept.Len() == 0 {
			delete(t.byNamespace, namespace)
		}
	}
	delete(t.uids, uid)
}

func (t *tombstones) has(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, has := t.uids[uid]
	return has
}
