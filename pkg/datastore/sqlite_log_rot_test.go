package datastore

import (
	"bufio"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
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

// TestRotOfTheLogOfSQLite: a log that is lost, cut off or damaged after a kill is refused, or said to lack writes, or nothing is lost.
func TestRotOfTheLogOfSQLite(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	all, then := kills(t, random, size.Of(6, 8, 10))
	newest := make([]int64, len(all))
	for i, files := range all {
		dir := left(t, files)
		index, known, err := readWALIndex(sqlitePath(dir))
		if err != nil || !known {
			t.Fatalf("kill %d: the index of the log says %+v (%v)", i, index, err)
		}
		if lacks, err := LogLacks(dir, true, true); lacks || err != nil {
			t.Errorf("kill %d: with all of its log it lacks writes (%v)", i, err)
		}
		if newest[i], err = SQLiteRevision(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	var tried, refused, lacks, found, same, partly, mixed int
	for range size.Of(20, 40, 400) {
		kill := random.IntN(len(all))
		files := maps.Clone(all[kill])
		log := files["state.db-wal"]
		how := "the log is lost"
		switch random.IntN(5) {
		case 0:
			delete(files, "state.db-wal")
		case 1:
			at := random.IntN(len(log) + 1)
			files["state.db-wal"] = log[:at]
			how = fmt.Sprintf("the log is cut off at %d of %d", at, len(log))
		case 2:
			files["state.db-wal"] = slices.Clone(log)
			at := random.IntN(len(log)) &^ 511
			clear(files["state.db-wal"][at:min(at+512, len(log))])
			how = fmt.Sprintf("the log's sector at %d of %d is lost", at, len(log))
		default:
			files["state.db-wal"], how = strike(log, random.IntN(len(log)), random)
		}
		dir := left(t, files)
		tried++
		index, _, err := readWALIndex(sqlitePath(dir))
		if err != nil {
			t.Fatal(err)
		}
		if index.taken > 0 && index.taken < index.frames {
			partly++
		}
		lack, err := LogLacks(dir, false, true)
		if err != nil {
			t.Fatal(err)
		}
		if empty, err := CheckSQLite(t.Context(), dir); err != nil || empty {
			refused++
			continue
		}
		c, err := verifySQLite(t.Context(), dir, noProgress)
		if err != nil {
			t.Fatal(err)
		}
		revision, err := SQLiteRevision(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		r := rot{wrote: then.at(revision)}
		got, listed, err := readKeys(t, dir, slices.Collect(maps.Keys(r.wrote)))
		what := r.lost(got) + r.lost(listed)
		switch {
		case lack:
			lacks++
			if len(c.Problems) == 0 && what != "" {
				mixed++ // nothing else tells
			}
		case len(c.Problems) > 0:
			found++
		case err != nil || what != "" || revision != newest[kill]:
			t.Errorf("%s, %+v: neither the start nor the check finds it; it ends with revision %d of %d: %s (%v)", how, index, revision, newest[kill], what, err)
		default:
			same++
		}
	}
	if partly == 0 || lacks == 0 {
		t.Error("the test has not tried what it should")
	}
	size.Power(t, fmt.Sprintf("tried=%d refused=%d lacks=%d found=%d same=%d partlyTaken=%d mixedAndOnlyTheIndexTells=%d", tried, refused, lacks, found, same, partly, mixed))
}

// TestKilledServerLacksNothing: at whatever moment it is killed, its log is as long as the log's index says.
func TestKilledServerLacksNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	told := 0 // it may be killed where the log has just begun
	for i := range size.Of(1, 2, 40) {
		level := []string{"full", "normal"}[i%2]
		dir, journal := t.TempDir(), filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(journal, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), powerDir+"="+dir, powerLevel+"="+level, powerTimes+"=4000", "REAP_TEST_JOURNAL="+journal)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + random.IntN(1500) {
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		index, known, err := readWALIndex(sqlitePath(dir))
		if err != nil {
			t.Fatal(err)
		}
		if known {
			told++
		}
		if lacks, err := LogLacks(dir, true, true); lacks || err != nil {
			t.Errorf("%s, %+v: with all of its log it lacks writes (%v)", level, index, err)
		}
	}
	size.Power(t, fmt.Sprintf("indexSaid=%d", told))
}
