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

// TestWatchTellsTheValueBeforeTheCompactedRevision: a key's value may be older than what was compacted, and still be its value then. A
// watch from the past tells it with the change.
func TestWatchTellsTheValueBeforeTheCompactedRevision(t *testing.T) {
	c := open(t)
	const key = "/registry/old/1"
	first, err := put(t.Context(), c, key, "before", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1100 { // a compaction leaves the last thousand
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/others/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	compacted := first.Header.Revision + 10
	if _, err := c.Compact(t.Context(), compacted); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(compacted-1)); err == nil {
		t.Fatal("nothing was compacted")
	}
	changed, err := put(t.Context(), c, key, "after", first.Header.Revision)
	if err != nil || !changed.Succeeded {
		t.Fatal(changed, err)
	}
	for form, options := range map[string][]clientv3.OpOption{"one key": nil, "a range": {clientv3.WithRange("/registry/old0")}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := <-c.Watch(ctx, key, append(options, clientv3.WithRev(changed.Header.Revision), clientv3.WithPrevKV())...)
		cancel()
		if len(r.Events) != 1 || r.Events[0].PrevKv == nil || string(r.Events[0].PrevKv.Value) != "before" || r.Events[0].PrevKv.ModRevision != first.Header.Revision {
			t.Errorf("%s: the watch tells %v (%v), and should tell the value before", form, r.Events, r.Err())
		}
	}
}
