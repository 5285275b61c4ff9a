package datastore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// BenchmarkCompaction compacts 10,000 objects that were created and deleted, while four clients write. It reports how
// long a write takes then and without the compaction. docs/datastore.md has figures.
func BenchmarkCompaction(b *testing.B) {
	s, err := Start(b.Context(), Options{
		Dir: b.TempDir(), Synchronous: "full", MinHistory: 1, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	c := s.Client()
	const objects, writers = 10_000, 4
	value := strings.Repeat("a small object ", 64)
	for b.Loop() {
		g, ctx := errgroup.WithContext(b.Context())
		g.SetLimit(64)
		for i := range objects {
			g.Go(func() error {
				key := fmt.Sprintf("/registry/configmaps/default/dependent-%08d", i)
				made, err := put(ctx, c, key, value, 0)
				if err == nil {
					_, err = remove(ctx, c, key, made.Header.Revision)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		// write returns how long each write took until done is closed.
		write := func(done <-chan struct{}) (took []time.Duration) {
			g, ctx := errgroup.WithContext(b.Context())
			var mu sync.Mutex
			for i := range writers {
				g.Go(func() error {
					key, revision := fmt.Sprintf("/registry/leases/default/writer-%d-%d", i, time.Now().UnixNano()), int64(0)
					for {
						select {
						case <-done:
							return nil
						default:
						}
						began := time.Now()
						answer, err := put(ctx, c, key, value, revision)
						if err != nil {
							return err
						}
						revision = answer.Header.Revision
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			return took
		}
		report := func(what string, took []time.Duration) {
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms-"+what)
			b.ReportMetric(ms(took[len(took)-1]), "max-ms-"+what)
		}
		quiet := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { close(quiet) })
		report("quiet", write(quiet))
		compacted := make(chan struct{})
		now, err := c.Get(b.Context(), "/registry/none")
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		go func() {
			defer close(compacted)
			if _, err := c.Compact(b.Context(), now.Header.Revision); err != nil {
				b.Error(err)
			}
		}()
		report("compacting", write(compacted))
		b.ReportMetric(time.Since(began).Seconds(), "s-compaction")
	}
	_ = c.Close() // it has no connection
}
