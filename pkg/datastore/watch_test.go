package datastore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestWatchFromAListMissesNothing lists and watches from there while the first keys are created, as an
// informer of a new resource does.
func TestWatchFromAListMissesNothing(t *testing.T) {
	c := open(t)
	const n = 3
	for round := range 150 {
		prefix := fmt.Sprintf("/registry/new-%d/", round)
		var writing sync.WaitGroup
		for i := range n {
			writing.Go(func() {
				if _, err := create(t.Context(), c, fmt.Sprintf("%s%d", prefix, i)); err != nil {
					t.Error(err)
				}
			})
		}
		seen := map[string]bool{}
		list, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(500))
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range list.Kvs {
			seen[string(kv.Key)] = true
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		events := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(list.Header.Revision+1), clientv3.WithPrevKV())
		for len(seen) < n {
			r, ok := <-events
			if !ok {
				break // it took too long
			}
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			for _, e := range r.Events {
				seen[string(e.Kv.Key)] = true
			}
		}
		cancel()
		writing.Wait()
		if len(seen) != n {
			now, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
			t.Fatalf("round %d: a list at revision %d with %d keys and the watch from there show %v of %s (%v)", round, list.Header.Revision, len(list.Kvs), seen, names(now), err)
		}
	}
}
