package datastore

import (
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reap-dev/reap/tests/size"
)

var databaseFiles = []string{"state.db", "state.db-wal", "state.db-shm"}

// kills returns the files of a database at several moments of its history, as kills leave them: with logs that are in the database not at all, in part
// and again from the start.
func kills(t *testing.T, random *rand.Rand, moments int) (all []map[string][]byte, then past) {
	t.Helper()
	dir := t.TempDir()
	s := rottingSQLite(t, dir)
	defer s.Stop()
	c := s.Client()
	defer func() { _ = c.Close() }() // it has no connection
	w := newWriter(c, random)
	reader, err := sql.Open(sqliteDriver, "file:"+sqlitePath(dir)+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }() // it has only read
	read := func() {}
	for i := range moments {
		if i%3 == 1 { // a read that goes on keeps the log from starting anew, and what is older goes into the database
			tx, err := reader.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var rows int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM kine").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			read()
			read = func() { _ = tx.Rollback() } // it has only read
		}
		for n := range 20 + random.IntN(30) {
			w.write(t, []int{100, 300, 1000, 6000}[random.IntN(4)])
			if n == 5 && i%3 > 0 {
				if _, err := reader.ExecContext(t.Context(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.drop(t, 30)
		files := map[string][]byte{}
		for _, name := range databaseFiles {
			raw, err := os.ReadFile(filepath.Join(dir, "db", name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = raw
		}
		all = append(all, files)
	}
	read()
	return all, w.past
}

// TestRotOfTheLogOfSQLite: a log that is lost, cut off or damaged is refused, or said to lack writes, or leaves the state of an earlier revision, in which
// no owner is missing that was made before a dependent.
func TestRotOfTheLogOfSQLite(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	all, then := kills(t, random, size.Of(6, 8, 25))
	var tried, refused, lacks, found, earlier, same, taken int
	for range size.Of(15, 30, 600) {
		files := maps.Clone(all[random.IntN(len(all))])
		log := files["state.db-wal"]
		how := "the log is whole"
		switch random.IntN(5) {
		case 0:
			delete(files, "state.db-wal")
			how = "the log is lost"
		case 1:
			at := random.IntN(len(log) + 1)
			files["state.db-wal"] = log[:at]
			how = fmt.Sprintf("the log is cut off at %d of %d", at, len(log))
		case 2:
			files["state.db-wal"] = slices.Clone(log)
			at := random.IntN(len(log)) &^ 511
			clear(files["state.db-wal"][at:min(at+512, len(log))])
			how = fmt.Sprintf("the log's sector at %d of %d is lost", at, len(log))
		case 3, 4:
			files["state.db-wal"], how = strike(log, random.IntN(len(log)), random)
		}
		dir := left(t, files)
		tried++
		index, known, err := readWALIndex(sqlitePath(dir))
		if err != nil || !known && index.frames > 0 {
			t.Fatalf("the index of the log says %+v (%v, %v)", index, known, err)
		}
		if index.taken > 0 {
			taken++
		}
		synced := random.IntN(2) == 0
		how += fmt.Sprintf(", synced %v, %+v", synced, index)
		lack, err := LogLacks(dir, synced)
		if err != nil {
			t.Fatal(err)
		}
		if lack {
			lacks++
			continue
		}
		if empty, err := CheckSQLite(t.Context(), dir); err != nil || empty {
			refused++
			continue
		}
		if c, err := verifySQLite(t.Context(), dir, noProgress); err != nil || len(c.Problems) > 0 {
			found++
			continue
		}
		revision, err := SQLiteRevision(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		r := rot{wrote: then.at(revision)}
		got, listed, err := readKeys(t, dir, slices.Collect(maps.Keys(r.wrote)))
		if what := r.lost(got) + r.lost(listed); err != nil || what != "" {
			t.Errorf("%s: neither the start nor the check finds it, and it is as at no revision before %d: %s (%v)", how, revision, what, err)
		}
		if synced && revision < slices.Max(slices.Collect(maps.Keys(then))) {
			earlier++
		} else {
			same++
		}
	}
	if taken == 0 || lacks == 0 {
		t.Error("the test has not tried what it should")
	}
	size.Power(t, fmt.Sprintf("tried=%d refused=%d lacks=%d found=%d earlier=%d same=%d taken=%d", tried, refused, lacks, found, earlier, same, taken))
}
