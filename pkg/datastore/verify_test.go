package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"
)

func noProgress(int64, int64) {}

// TestVerifyFindsNothingWrongWhileClientsWrite: also while rows are compacted away.
func TestVerifyFindsNothingWrongWhileClientsWrite(t *testing.T) {
	for engine, open := range map[string]func(*testing.T) (*Store, *clientv3.Client){
		"SQLite": func(t *testing.T) (*Store, *clientv3.Client) { return openIn(t, t.TempDir(), 0) },
		"Etcd":   func(t *testing.T) (*Store, *clientv3.Client) { return openEtcd(t, t.TempDir()) },
	} {
		t.Run(engine, func(t *testing.T) {
			store, client := open(t)
			random, there := rand.New(rand.NewPCG(1, 1)), map[string]int64{}
			change(t, client, random, there, 1500)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 5 {
					c, known, err := store.Verify(ctx, noProgress)
					if err != nil || !known || len(c.Problems) > 0 || c.Keys == 0 {
						t.Errorf("the check says %+v (known %v, %v)", c, known, err)
						return
					}
				}
			}()
			for writing := true; writing; {
				change(t, client, random, there, 50)
				if _, err := client.Compact(ctx, newestOf(there)); err != nil {
					t.Log(err) // as one that is compacted already
				}
				select {
				case <-done:
					writing = false
				default:
				}
			}
		})
	}
}

func newestOf(there map[string]int64) (newest int64) {
	for _, revision := range there {
		newest = max(newest, revision)
	}
	return newest
}

// TestVerifyReadsInShortStatements: one that reads everything at once would keep SQLite's log from starting anew.
func TestVerifyReadsInShortStatements(t *testing.T) {
	store, client := openIn(t, t.TempDir(), 0)
	change(t, client, rand.New(rand.NewPCG(2, 2)), map[string]int64{}, 3*verifyChunk)
	var steps []int64
	c, _, err := store.Verify(t.Context(), func(done, all int64) {
		if done > all || len(steps) > 0 && done < steps[len(steps)-1] {
			t.Errorf("%d of %d rows after %v", done, all, steps)
		}
		steps = append(steps, done)
	})
	if err != nil || len(c.Problems) > 0 || int64(len(steps)) < 2*c.Rows/verifyChunk {
		t.Errorf("%d rows were read in %d steps: %+v, %v", c.Rows, len(steps), c, err)
	}
}

// BenchmarkVerify reads 100,000 objects of a kilobyte.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	store, _ := openIn(b, dir, 0)
	fillWithObjects(b, dir, 100_000)
	for b.Loop() {
		c, _, err := store.Verify(b.Context(), noProgress)
		if err != nil || len(c.Problems) > 0 || c.Keys < 100_000 {
			b.Fatal(c, err)
		}
	}
	if err := inspect(b.Context(), dir, func(tx *sql.Tx) error {
		var size int64
		err := tx.QueryRow("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").Scan(&size)
		b.ReportMetric(float64(size)/1e6, "MB")
		return err
	}); err != nil {
		b.Fatal(err)
	}
}

// fillWithObjects adds ConfigMaps to a database.
func fillWithObjects(b *testing.B, dir string, objects int) {
	b.Helper()
	db, err := sql.Open(sqliteDriver, sqlitePath(dir)+"?"+parameters("normal"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 3))
	for i := range objects {
		key := fmt.Sprintf("/registry/configmaps/default/%06d", i)
		_, err := tx.ExecContext(b.Context(), "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value) VALUES (?, 1, 0, 0, 0, 0, ?)",
			key, object(b, key, random))
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// TestVerifyOfEtcdKeepsLittle: a hash of each key, however long keys are.
func TestVerifyOfEtcdKeepsLittle(t *testing.T) {
	c := newEtcdCheck(t.TempDir())
	const keys = 100_000
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for i := range int64(keys) {
		raw, err := proto.Marshal(&mvccpb.KeyValue{Key: fmt.Appendf(nil, "/reap/%0100d", i), CreateRevision: i + 2, ModRevision: i + 2, Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		if what := c.wrong(mvcc.RevToBytes(mvcc.Revision{Main: i + 2}, mvcc.NewRevBytes()), raw); what != "" {
			t.Fatal(what)
		}
	}
	const most = 16 << 20
	if took := held() - before; took > most {
		t.Errorf("%d keys take %d bytes", keys, took)
	} else {
		t.Logf("%d keys take %d bytes", keys, took)
	}
	runtime.KeepAlive(c)
}
