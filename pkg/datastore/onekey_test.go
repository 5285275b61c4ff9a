package datastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

// TestReadOfOneKeyMissesNothing reads a key while it is written, in each form that the API server uses, and watches
// from the revision of the read: every write must be in the read or in the watch.
func TestReadOfOneKeyMissesNothing(t *testing.T) {
	writes := size.Of(400, 1500, 40_000)
	for form, opts := range map[string][]clientv3.OpOption{
		"ListByName":    {clientv3.WithLimit(1)},
		"InitialEvents": nil, // of a watch by name
		"List":          {clientv3.WithPrefix(), clientv3.WithLimit(500)},
	} {
		t.Run(form, func(t *testing.T) {
			c := open(t)
			t.Run("Creation", func(t *testing.T) {
				inParallel(t, writes, func(i int) error {
					return readWhile(t.Context(), c, fmt.Sprintf("/registry/created/%06d", i), opts, 1, create)
				})
			})
			t.Run("Deletion", func(t *testing.T) {
				inParallel(t, writes/10, func(i int) error {
					key := fmt.Sprintf("/registry/deleted/%06d", i)
					revision, err := create(t.Context(), c, key)
					if err != nil {
						return err
					}
					return readWhile(t.Context(), c, key, opts, 0, func(ctx context.Context, c *clientv3.Client, key string) (int64, error) {
						return remove(ctx, c, key, revision)
					})
				})
			})
		})
	}
}

// inParallel calls try with 0 to n-1, a few at a time: a read meets writes of other keys too.
func inParallel(t *testing.T, n int, try func(i int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error {
			if err := try(i); err != nil {
				t.Error(err)
			}
			return nil
		})
	}
	_ = g.Wait() // all errors have been reported
}

// readWhile reads key while write writes it. It returns an error unless the read shows the keys that are there after
// the write, or a watch from the revision of the read shows the write.
func readWhile(ctx context.Context, c *clientv3.Client, key string, opts []clientv3.OpOption, after int,
	write func(context.Context, *clientv3.Client, string) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var revision int64
	var failed error
	var writing sync.WaitGroup
	writing.Go(func() { revision, failed = write(ctx, c, key) })
	read, err := c.Get(ctx, key, opts...)
	writing.Wait()
	if err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if len(read.Kvs) == after {
		return nil
	}
	lost := fmt.Errorf("%s was written at revision %d: a read at revision %d and the watch from there do not show it", key, revision, read.Header.Revision)
	if read.Header.Revision >= revision {
		return lost // and no watch will show it
	}
	for r := range c.Watch(ctx, key, clientv3.WithRev(read.Header.Revision+1), clientv3.WithPrevKV()) {
		if err := r.Err(); err != nil {
			return err
		}
		if r.Events[len(r.Events)-1].Kv.ModRevision == revision {
			return nil
		}
	}
	return lost
}
