package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/size"
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

// foundKeys returns what a GET of each key, and a LIST of all, find in an SQLite database: the revision of each key.
func foundKeys(t *testing.T, dir string, keys []string) (got, listed map[string]int64, err error) {
	t.Helper()
	got, listed = map[string]int64{}, map[string]int64{}
	err = readSQLite(t.Context(), sqlitePath(dir), func(db *sql.DB) error {
		for _, key := range keys {
			var id, deleted sql.NullInt64
			err := db.QueryRowContext(t.Context(), "SELECT id, deleted FROM kine WHERE id = (SELECT MAX(same.id) FROM kine AS same INDEXED BY "+ourIndex+" WHERE same.name = ?)", key).Scan(&id, &deleted)
			if err != nil && err != sql.ErrNoRows {
				return err
			}
			if id.Valid && deleted.Int64 == 0 {
				got[key] = id.Int64
			}
		}
		rows, err := db.QueryContext(t.Context(), `SELECT kv.name, kv.id FROM kine AS kv INDEXED BY `+ourIndex+` WHERE kv.name >= '/registry/' AND kv.name < '/registry0'
			AND kv.id = (SELECT MAX(same.id) FROM kine AS same WHERE same.name = kv.name) AND kv.deleted = 0 ORDER BY kv.name`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			var id int64
			if err := rows.Scan(&name, &id); err != nil {
				return err
			}
			listed[name] = id
		}
		return rows.Err()
	})
	return got, listed, err
}

// TestFlippedBitsAreFound: a bit that hides a key from a GET or a LIST is found by the start or by the check, wherever it is; and a
// compaction makes a broken index anew without loss.
func TestFlippedBitsAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	whole := left(t, killed(t, random))
	if _, err := CompactSQLite(t.Context(), whole, noProgress); err != nil { // takes the log in
		t.Fatal(err)
	}
	content, err := os.ReadFile(sqlitePath(whole))
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	parts := map[string][]int{"header": {0}}
	for at := page; at+page <= len(content); at += page {
		part := "overflow" // or free
		switch content[at] {
		case 0x0a:
			part = "index leaf"
		case 0x0d:
			part = "table leaf"
		case 0x02, 0x05:
			part = "inner"
		}
		parts[part] = append(parts[part], at)
	}
	f := newFlips(t, whole)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.Run(part, func(t *testing.T) {
			pages := parts[part]
			bytes := page
			if part == "header" {
				bytes = 200
			}
			for range size.Of(10, 40, 200) {
				f.flip(t, content, pages[random.IntN(len(pages))]+random.IntN(bytes), byte(1)<<random.IntN(8), part == "index leaf")
			}
			size.Power(t, f.power())
		})
	}
}

// flips counts what becomes of flipped bits.
type flips struct {
	before                           []row
	latest                           map[string]int64 // of each key
	keys                             []string
	tries, refused, hidden, repaired int
}

func newFlips(t *testing.T, dir string) *flips {
	f := &flips{before: rowsIn(t, dir), latest: map[string]int64{}}
	for _, r := range f.before {
		if delete(f.latest, r.name); !r.deleted && strings.HasPrefix(r.name, "/registry/") {
			f.latest[r.name] = r.id
		}
	}
	f.keys = slices.Collect(maps.Keys(f.latest))
	return f
}

// power says what was tried since it was last called.
func (f *flips) power() string {
	text := fmt.Sprintf("flips=%d refused=%d hidden=%d repaired=%d", f.tries, f.refused, f.hidden, f.repaired)
	f.tries, f.refused, f.hidden, f.repaired = 0, 0, 0, 0
	return text
}

// flip tries one bit. If only an index is damaged, a compaction must repair what the check has found.
func (f *flips) flip(t *testing.T, content []byte, at int, bit byte, index bool) {
	t.Helper()
	flipped := slices.Clone(content)
	flipped[at] ^= bit
	says := fmt.Sprintf("bit %#x of byte %d", bit, at)
	dir := left(t, map[string][]byte{"state.db": flipped})
	f.tries++
	if empty, err := CheckSQLite(t.Context(), dir); err != nil || empty {
		f.refused++ // a server refuses a database that is empty where there was one
		return
	}
	c, err := verifySQLite(t.Context(), dir, noProgress)
	if err != nil {
		c.problem("%v", err) // which holds as well
	}
	got, listed, err := foundKeys(t, dir, f.keys)
	if err != nil || !maps.Equal(got, f.latest) || !maps.Equal(listed, f.latest) {
		f.hidden++
		if len(c.Problems) == 0 {
			t.Errorf("%s: the check finds nothing, and %d of %d keys are found, %d listed (%v)", says, len(got), len(f.latest), len(listed), err)
		}
	}
	if len(c.Problems) == 0 || !index {
		return
	}
	if _, err := CompactSQLite(t.Context(), dir, noProgress); err != nil {
		t.Errorf("%s: %v", says, err)
		return
	}
	f.repaired++
	if after := rowsIn(t, dir); !slices.Equal(after, f.before) {
		t.Errorf("%s: a compaction changed rows", says)
	}
	if c, err := verifySQLite(t.Context(), dir, noProgress); err != nil || len(c.Problems) > 0 {
		t.Errorf("%s: after a compaction the check says %q (%v)", says, c.Problems, err)
	}
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
