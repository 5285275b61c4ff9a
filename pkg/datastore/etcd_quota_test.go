package datastore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestQuotaOfEtcdIsRelievedByDeletions: a database that has used up its quota refuses writes with 507, but for deletions.
// These, the compaction and the defragmentation that follow make room, and the same process takes writes again.
func TestQuotaOfEtcdIsRelievedByDeletions(t *testing.T) {
	const quota = 24 << 20
	o := etcdOptions(t.TempDir())
	o.Quota = quota
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	// etcd sees how large its database is when it commits, which it does after 1,000 changes.
	large := strings.Repeat("large", 32<<10/5)
	revisions := map[string]int64{}
	var refused error
	for i := 0; refused == nil; i++ {
		if i*len(large) > 4*quota {
			t.Fatalf("%d values of %d bytes fit into a quota of %d", i, len(large), quota)
		}
		key := fmt.Sprintf("/registry/x/%d", i)
		var answer *clientv3.TxnResponse
		if answer, refused = put(t.Context(), c, key, large, 0); refused == nil {
			revisions[key] = answer.Header.Revision
		}
	}
	eventually(t, func() error {
		if code, text := s.Refusal(); code != http.StatusInsufficientStorage || !strings.Contains(text, "is full, or its quota is used up") {
			return fmt.Errorf("the API server answers %d %q", code, text)
		}
		return nil
	})
	if there := keysOf(t, c); len(there) != len(revisions) {
		t.Errorf("%d keys were acknowledged, %d are there", len(revisions), len(there))
	}

	deleted := 0
	for key, revision := range revisions {
		if deleted++; deleted > 3*len(revisions)/4 {
			break
		}
		if _, err := remove(t.Context(), c, key, revision); err != nil {
			t.Fatalf("deleting with a quota that is used up: %v", err)
		}
		delete(revisions, key)
	}
	began := time.Now()
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
	t.Logf("writes are taken %s after the deletions", time.Since(began).Round(time.Millisecond))
	if _, err := put(t.Context(), c, "/registry/x/late", large, 0); err != nil {
		t.Errorf("a write once there is room: %v", err)
	}
	there := keysOf(t, c)
	delete(there, "/registry/x/late")
	if len(there) != len(revisions) {
		t.Errorf("%d keys were to stay, %d are there", len(revisions), len(there))
	}
	for key, revision := range revisions {
		if there[key] != revision {
			t.Errorf("%s is at revision %d, want %d", key, there[key], revision)
		}
	}
}
