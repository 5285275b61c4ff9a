package datastore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// BenchmarkDelete deletes keys with sixteen clients at once, as a cascade does: one transaction for each key, through
// kine and SQLite on disk. Run with CGO_ENABLED=1 and =0 it compares the two SQLites; docs/releases.md has figures.
func BenchmarkDelete(b *testing.B) {
	c := open(b)
	keys := make([]string, b.N)
	revisions := make([]int64, b.N)
	each := func(do func(ctx context.Context, i int) error) {
		b.Helper()
		g, ctx := errgroup.WithContext(b.Context())
		g.SetLimit(16)
		for i := range b.N {
			g.Go(func() error { return do(ctx, i) })
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	value := strings.Repeat("a small object ", 64)
	each(func(ctx context.Context, i int) error {
		keys[i] = fmt.Sprintf("/registry/configmaps/default/dependent-%08d", i)
		made, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(keys[i]), "=", 0)).
			Then(clientv3.OpPut(keys[i], value)).Commit()
		if err == nil {
			revisions[i] = made.Header.Revision
		}
		return err
	})
	b.ResetTimer()
	each(func(ctx context.Context, i int) error {
		_, err := remove(ctx, c, keys[i], revisions[i])
		return err
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deletes/s")
}
