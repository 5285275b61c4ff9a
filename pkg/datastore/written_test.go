package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// BenchmarkPageSize compares sizes of SQLite's pages; 4096 is the default. See rowsWritten.
func BenchmarkPageSize(b *testing.B) {
	for _, bytes := range []int{1024, 2048, 4096, 8192, 16384} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) { rowsWritten(b, bytes, 1000) })
	}
}

// BenchmarkCheckpoint compares after how many pages SQLite takes its log in; 1000 is the default. See rowsWritten.
func BenchmarkCheckpoint(b *testing.B) {
	for _, pages := range []int{250, 1000, 4000, 16000} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) { rowsWritten(b, 4096, pages) })
	}
}

// rowsWritten creates 20,000 keys with sixteen clients, updates and deletes them, each time in another order, and reports how long that takes and
// how many bytes reach the disk for each. In between it reads all of them in pages of 500. The log is taken in after each step, so that none
// leaves its writes to the next. TMPDIR has to be on a disk. docs/datastore.md has figures.
func rowsWritten(b *testing.B, pageSize, logPages int) {
	const keys, clients, page = 20_000, 16, 500
	value := strings.Repeat("v", 700)
	for b.Loop() {
		s, db := openWith(b, pageSize, logPages)
		c := s.Client()
		revisions := make([]int64, keys)
		each := func(what string, write func(ctx context.Context, key string, revision int64) (*clientv3.TxnResponse, error)) {
			before, began := bytesWritten(b), time.Now()
			g, ctx := errgroup.WithContext(b.Context())
			g.SetLimit(clients)
			for _, i := range rand.Perm(keys) {
				g.Go(func() error {
					answer, err := write(ctx, fmt.Sprintf("/registry/configmaps/default/dependent-%08d", i), revisions[i])
					if err == nil && !answer.Succeeded {
						err = fmt.Errorf("key %d is no longer at revision %d", i, revisions[i])
					}
					if err == nil {
						revisions[i] = answer.Header.Revision
					}
					return err
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			if _, err := db.ExecContext(b.Context(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(bytesWritten(b)-before)/keys, "B/"+what)
			b.ReportMetric(float64(took.Microseconds())/keys, "µs/"+what)
		}
		store := func(ctx context.Context, key string, revision int64) (*clientv3.TxnResponse, error) {
			return put(ctx, c, key, value, revision)
		}
		each("create", store)
		each("update", store)
		var took []time.Duration
		for from, more := "/registry/configmaps/", true; more; {
			began := time.Now()
			list, err := c.Get(b.Context(), from, clientv3.WithRange("/registry/configmaps0"), clientv3.WithLimit(page))
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
			from, more = string(list.Kvs[len(list.Kvs)-1].Key)+"\x00", list.More
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/page")
		each("delete", func(ctx context.Context, key string, revision int64) (*clientv3.TxnResponse, error) {
			return c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
				Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
		})
		_ = c.Close() // it has no connection
		s.Stop()
	}
}

// openWith starts a new store with pages of so many bytes, whose log is taken in after so many of them.
func openWith(b *testing.B, pageSize, logPages int) (*Store, *sql.DB) {
	b.Helper()
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Dir(sqlitePath(dir)), 0o700); err != nil {
		b.Fatal(err)
	}
	empty, err := sql.Open(sqliteDriver, sqlitePath(dir))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := empty.ExecContext(b.Context(), fmt.Sprintf("PRAGMA page_size = %d; VACUUM", pageSize)); err != nil {
		b.Fatal(err)
	}
	if err := empty.Close(); err != nil {
		b.Fatal(err)
	}
	s, err := Start(b.Context(), Options{Dir: dir, Synchronous: "full", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	rows := s.engine.(*kine).sqlite.log.(wholeLog).rows.(dialect).group
	rows.log.long = 1 << 40 // the longest of these logs would be begun anew
	db := rows.database.(*generic.Generic).DB
	// Each connection takes the log in after its own writes. These are more than the clients use at a time, and stay.
	connections := make([]*sql.Conn, 32)
	db.SetMaxIdleConns(len(connections))
	db.SetConnMaxIdleTime(0)
	for i := range connections {
		if connections[i], err = db.Conn(b.Context()); err != nil {
			b.Fatal(err)
		}
		var pages, bytes int
		if err := connections[i].QueryRowContext(b.Context(), fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", logPages)).Scan(&pages); err != nil {
			b.Fatal(err)
		}
		if err := connections[i].QueryRowContext(b.Context(), "PRAGMA page_size").Scan(&bytes); err != nil {
			b.Fatal(err)
		}
		if pages != logPages || bytes != pageSize {
			b.Fatalf("pages have %d bytes, and the log is taken in after %d of them", bytes, pages)
		}
	}
	for _, c := range connections {
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return s, db
}

// bytesWritten is how many bytes this process has sent to the disk.
func bytesWritten(b *testing.B) (n int64) {
	b.Helper()
	account, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	_, line, _ := strings.Cut(string(account), "\nwrite_bytes: ")
	if _, err := fmt.Sscan(line, &n); err != nil {
		b.Fatal(err)
	}
	return n
}
