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

// BenchmarkList lists 20,000 keys, whole and a page of 500, as the API server does.
func BenchmarkList(b *testing.B) {
	c := open(b)
	const n = 20_000
	value := strings.Repeat("a small object ", 64)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			key := fmt.Sprintf("/registry/configmaps/default/dependent-%08d", i)
			_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, value)).Commit()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	for name, limit := range map[string]int64{"whole": 0, "page": 500} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				got, err := stream(b.Context(), c, "/registry/configmaps/", clientv3.WithPrefix(), clientv3.WithLimit(limit))
				if err != nil || got.Count != n {
					b.Fatal(got, err)
				}
			}
		})
	}
}
