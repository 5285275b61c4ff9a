package datastore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// open starts a datastore over SQLite and returns a client of it; both end with the test.
func open(t testing.TB) *clientv3.Client {
	t.Helper()
	_, c := openIn(t, t.TempDir(), 0)
	return c
}

// openIn does so in dir, with a reserve of that many bytes.
func openIn(t testing.TB, dir string, reserve int64) (*Store, *clientv3.Client) {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Reserve: reserve, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	return s, c
}

// create returns the revision that the key is created at.
func create(ctx context.Context, c *clientv3.Client, key string) (int64, error) {
	answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "v")).Commit()
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}

// remove returns the revision that the key is deleted at.
func remove(ctx context.Context, c *clientv3.Client, key string, revision int64) (int64, error) {
	answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}

// TestListIsTrueToItsRevision lists while others write, as the API server does: what a list does not show
// must come as an event after its revision, and what it shows must have been there then.
func TestListIsTrueToItsRevision(t *testing.T) {
	t.Run("Range", func(t *testing.T) {
		testListIsTrueToItsRevision(t, func(ctx context.Context, c *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
			return c.Get(ctx, key, opts...)
		})
	})
	t.Run("RangeStream", func(t *testing.T) { testListIsTrueToItsRevision(t, stream) })
}

func testListIsTrueToItsRevision(t *testing.T, list func(context.Context, *clientv3.Client, string, ...clientv3.OpOption) (*clientv3.GetResponse, error)) {
	t.Helper()
	c := open(t)
	for round := range 20 {
		prefix := fmt.Sprintf("/registry/things-%d/", round)
		const n = 60
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf("%s%03d", prefix, i))
			if _, err := create(t.Context(), c, keys[i]); err != nil {
				t.Fatal(err)
			}
		}
		all, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
		if err != nil || len(all.Kvs) != n {
			t.Fatalf("%d keys, %v", len(all.Kvs), err)
		}
		var writing sync.WaitGroup
		writing.Go(func() {
			for _, kv := range all.Kvs {
				if _, err := remove(t.Context(), c, string(kv.Key), kv.ModRevision); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for done := false; !done; {
			page, err := list(t.Context(), c, prefix, clientv3.WithPrefix(), clientv3.WithLimit(5))
			if err != nil {
				t.Fatal(err)
			}
			if done = len(page.Kvs) == 0; done {
				break // its revision may be older
			}
			then, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(5), clientv3.WithRev(page.Header.Revision))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := names(page), names(then); got != want {
				t.Fatalf("a list at revision %d shows %s, there were %s", page.Header.Revision, got, want)
			}
		}
		writing.Wait()
	}
}

// TestListOfNothingIsTrueToItsRevision has the first key created while the list is made.
func TestListOfNothingIsTrueToItsRevision(t *testing.T) {
	c := open(t)
	for round := range 200 {
		prefix := fmt.Sprintf("/registry/first-%d/", round)
		var writing sync.WaitGroup
		writing.Go(func() {
			if _, err := create(t.Context(), c, prefix+"key"); err != nil {
				t.Error(err)
			}
		})
		for done := false; !done; {
			list, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(5))
			if err != nil {
				t.Fatal(err)
			}
			then, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(5), clientv3.WithRev(list.Header.Revision))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := names(list), names(then); got != want {
				t.Fatalf("a list at revision %d shows %s, there were %s", list.Header.Revision, got, want)
			}
			done = len(list.Kvs) > 0
		}
		writing.Wait()
	}
}

// TestListShowsNothingThatHasGone: whoever was told that a key is deleted does not find it in a list.
func TestListShowsNothingThatHasGone(t *testing.T) {
	c := open(t)
	for round := range 100 {
		prefix := fmt.Sprintf("/registry/gone-%d/", round)
		var writing sync.WaitGroup
		for i := range 8 {
			writing.Go(func() {
				key := fmt.Sprintf("%s%d", prefix, i)
				if _, err := create(t.Context(), c, key); err != nil {
					t.Error(err)
					return
				}
				now, err := c.Get(t.Context(), key)
				if err != nil || len(now.Kvs) != 1 {
					t.Errorf("%s: %d keys, %v", key, len(now.Kvs), err)
					return
				}
				if _, err := remove(t.Context(), c, key, now.Kvs[0].ModRevision); err != nil {
					t.Error(err)
				}
			})
		}
		writing.Wait()
		list, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(500))
		if err != nil || len(list.Kvs) > 0 {
			t.Fatalf("round %d: %s is deleted and listed (%v)", round, names(list), err)
		}
	}
}

func names(r *clientv3.GetResponse) (s string) {
	for _, kv := range r.Kvs {
		s += string(kv.Key) + fmt.Sprintf("@%d ", kv.ModRevision)
	}
	return s
}

// TestCreationTellsItsOwnRevision also of a key that existed before, while others write: a change is based on it.
func TestCreationTellsItsOwnRevision(t *testing.T) {
	c := open(t)
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			key := fmt.Sprintf("/registry/again/%d", w)
			for range 100 {
				created, err := create(t.Context(), c, key)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := c.Get(t.Context(), key)
				if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != created {
					t.Errorf("created at revision %d, and it is at %v (%v)", created, got, err)
					return
				}
				if _, err := remove(t.Context(), c, key, created); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
}
