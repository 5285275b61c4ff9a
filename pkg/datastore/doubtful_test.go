package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// openDoubtful opens an SQLite database of which nothing is compacted before it was checked, and of whose history almost nothing is kept.
func openDoubtful(t *testing.T, dir string) (*Store, *clientv3.Client) {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", MinHistory: 1, VerifyFirst: true, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	return s, c
}

// TestDamagedRowsAreNotCompacted: a live row that damage makes a deletion, or that it puts behind another key's, would be gone for good, and the
// next check would find nothing wrong.
func TestDamagedRowsAreNotCompacted(t *testing.T) {
	for name, damage := range map[string]struct{ do, undo string }{
		"deleted":       {"UPDATE kine SET deleted = 1 WHERE id = %[1]d", "UPDATE kine SET deleted = 0 WHERE id = %[1]d"},
		"prev_revision": {"UPDATE kine SET prev_revision = %[1]d WHERE id = %[2]d", "UPDATE kine SET prev_revision = 0 WHERE id = %[2]d"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, c := openDoubtful(t, dir)
			var revisions []int64
			for i := range 20 {
				revision, err := create(t.Context(), c, fmt.Sprint("/reap/key-", i))
				if err != nil {
					t.Fatal(err)
				}
				revisions = append(revisions, revision)
			}
			living, newest := revisions[0], revisions[len(revisions)-1]
			change := func(statement string) {
				db := database(t, dir, "normal")
				if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(fmt.Sprintf(statement+" -- %[1]d %[2]d", living, revisions[10]), "\n", " ")); err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			compact := func(want error) {
				t.Helper()
				if _, err := c.Compact(t.Context(), newest); (err == nil) != (want == nil) || want != nil && !strings.Contains(err.Error(), want.Error()) {
					t.Errorf("a compaction says %v, want %v", err, want)
				}
				var rows int
				if err := inspect(t.Context(), dir, func(tx *sql.Tx) error {
					return tx.QueryRow("SELECT count(*) FROM kine WHERE id = ?", living).Scan(&rows)
				}); err != nil || rows != 1 {
					t.Fatalf("%d rows of the living key are left (%v)", rows, err)
				}
			}
			compact(errDoubtful) // not checked yet
			change(damage.do)
			if found, _, err := store.Verify(t.Context(), noProgress); err != nil || len(found.Problems) == 0 {
				t.Fatalf("the check finds %q (%v)", found.Problems, err)
			}
			compact(errDoubtful)
			// Beneath clients' compactions is kine's own.
			if _, err := store.engine.(*kine).rows.compact(t.Context(), newest); !errors.Is(err, errDoubtful) {
				t.Errorf("kine's own compaction says %v", err)
			}
			change(damage.undo)
			if found, _, err := store.Verify(t.Context(), noProgress); err != nil || len(found.Problems) > 0 {
				t.Fatalf("the check finds %q (%v)", found.Problems, err)
			}
			compact(nil)
		})
	}
}

// withKeys returns a data directory with a database of twenty keys, which no server uses.
func withKeys(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c := s.Client()
	defer func() { _ = c.Close() }() // it has no connection
	for i := range 20 {
		if _, err := create(t.Context(), c, fmt.Sprint("/reap/key-", i)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCompactionKeepsOtherKeys: a row takes no row of another key with it, whatever it says of the one before it.
func TestCompactionKeepsOtherKeys(t *testing.T) {
	for name, compact := range map[string]func(t *testing.T, dir string){
		"running": func(t *testing.T, dir string) {
			s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", MinHistory: 1, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			c := s.Client()
			defer func() { _ = c.Close() }()
			revision, err := create(t.Context(), c, "/reap/last")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Compact(t.Context(), revision); err != nil {
				t.Fatal(err)
			}
		},
		"raised": func(t *testing.T, dir string) {
			if err := RaiseSQLite(t.Context(), dir, 1000); err == nil || !strings.Contains(err.Error(), `"/reap/wrong": it builds on`) {
				t.Errorf("raising the revision of a damaged database says %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := withKeys(t)
			db := database(t, dir, "normal")
			var other, last int64
			if err := db.QueryRowContext(t.Context(), "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease) VALUES ('/reap/other', 1, 0, 0, 0, 0) RETURNING id").Scan(&other); err != nil {
				t.Fatal(err)
			}
			if err := db.QueryRowContext(t.Context(), "INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease) VALUES ('/reap/wrong', 1, 0, 0, ?, 0) RETURNING id", other).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			compact(t, dir)
			var rows int
			if err := inspect(t.Context(), dir, func(tx *sql.Tx) error {
				return tx.QueryRow("SELECT count(*) FROM kine WHERE id IN (?, ?)", other, last).Scan(&rows)
			}); err != nil || rows != 2 {
				t.Errorf("%d of 2 rows are left (%v)", rows, err)
			}
		})
	}
}

// TestIndexThatLeadsNowhereIsFound: to a row that is gone, to one of another key, and to one that it takes for a deletion.
func TestIndexThatLeadsNowhereIsFound(t *testing.T) {
	for statement, want := range map[string]string{
		"DELETE FROM kine WHERE id = 12":                         "the index of names has it, and the table has not",
		"UPDATE kine SET name = '/reap/elsewhere' WHERE id = 12": "the index of names takes it for",
		"UPDATE kine SET deleted = 1 - deleted WHERE id = 12":    "the index of names takes it for",
	} {
		dir := withKeys(t)
		db := database(t, dir, "normal")
		db.SetMaxOpenConns(1)
		for _, s := range []string{
			"PRAGMA writable_schema = ON",
			"CREATE TEMP TABLE kept AS SELECT * FROM sqlite_master WHERE name = '" + ourIndex + "'",
			"DELETE FROM sqlite_master WHERE name = '" + ourIndex + "'",
			"PRAGMA writable_schema = RESET",
			statement,
			"PRAGMA writable_schema = ON",
			"INSERT INTO sqlite_master SELECT * FROM kept",
			"PRAGMA writable_schema = RESET",
		} {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := verifySQLite(t.Context(), dir, noProgress)
		if err != nil || !strings.Contains(strings.Join(c.Problems, "; "), want) {
			t.Errorf("%s: the check finds %q (%v)", statement, c.Problems, err)
		}
		// The table's word alone would make a deletion of an object.
		if _, err := CompactSQLite(t.Context(), dir, noProgress); strings.Contains(statement, "deleted") &&
			(err == nil || !strings.Contains(err.Error(), `revision 12 of "/reap/key-`)) {
			t.Errorf("%s: a compaction says %v", statement, err)
		}
	}
}

// hidden puts a key's row into etcd's database, to which its index does not lead.
func hidden(t *testing.T, store *Store, key string) {
	t.Helper()
	member := store.engine.(*etcd).member
	revision := member.KV().Rev()
	raw, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), Value: []byte("{}"), CreateRevision: revision + 1, ModRevision: revision + 1, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	tx := member.Backend().BatchTx()
	tx.LockOutsideApply()
	tx.UnsafeSeqPut(schema.Key, mvcc.RevToBytes(mvcc.Revision{Main: revision + 1}, mvcc.NewRevBytes()), raw)
	tx.Unlock()
	member.Backend().ForceCommit()
}

// TestKeyThatEtcdsIndexLacksIsFound, and no history is compacted then.
func TestKeyThatEtcdsIndexLacksIsFound(t *testing.T) {
	o := etcdOptions(t.TempDir())
	o.VerifyFirst = true
	store, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	c := store.Client()
	defer func() { _ = c.Close() }()
	change(t, c, rand.New(rand.NewPCG(4, 4)), map[string]int64{}, 100)
	e := store.engine.(*etcd)
	compact := func() error {
		_, err := compactable{e}.Compact(context.WithoutCancel(t.Context()), &etcdserverpb.CompactionRequest{Revision: e.member.KV().Rev() - 1})
		return err
	}
	if err := compact(); !errors.Is(err, errDoubtful) {
		t.Errorf("a compaction before the check says %v", err)
	}
	if found, _, err := store.Verify(t.Context(), noProgress); err != nil || len(found.Problems) > 0 {
		t.Fatalf("the check finds %q (%v)", found.Problems, err)
	}
	if err := compact(); err != nil {
		t.Errorf("a compaction after the check says %v", err)
	}
	hidden(t, store, "/registry/hidden")
	found, _, err := store.Verify(t.Context(), noProgress)
	if err != nil || len(found.Problems) != 1 || !strings.Contains(found.Problems[0], `"/registry/hidden": the database has it`) {
		t.Errorf("the check finds %q (%v)", found.Problems, err)
	}
	if err := compact(); !errors.Is(err, errDoubtful) {
		t.Errorf("a compaction after the damage says %v", err)
	}
}
