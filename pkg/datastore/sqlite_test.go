package datastore

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// database opens the SQLite file of a data directory with the parameters that kine gets.
func database(t *testing.T, dir, synchronous string) *sql.DB {
	t.Helper()
	endpoint, err := openSQLite(t.Context(), dir, synchronous)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(sqliteDriver, strings.TrimPrefix(endpoint, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// number returns what a statement answers.
func number(t *testing.T, db *sql.DB, statement string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), statement).Scan(&n); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

func TestDatabaseIsOpenedAsAsked(t *testing.T) {
	for level, want := range map[string]int{"normal": 1, "full": 2} {
		db := database(t, t.TempDir(), level)
		if got := number(t, db, "PRAGMA synchronous"); got != want {
			t.Errorf("%s: synchronous is %d", level, got)
		}
		if got := number(t, db, "PRAGMA busy_timeout"); got != 30_000 {
			t.Errorf("the busy timeout is %d ms", got)
		}
		var mode string
		if err := db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
			t.Errorf("the journal is %q (%v)", mode, err)
		}
	}
	// A transaction that reads first and writes later would fail then; it has to wait at its beginning.
	dir := t.TempDir()
	first, err := database(t, dir, "normal").BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open(sqliteDriver, filepath.Join(dir, "db", "state.db")+"?"+strings.Replace(parameters("normal"), "_busy_timeout=30000", "_busy_timeout=1", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	if tx, err := other.BeginTx(t.Context(), nil); err == nil {
		t.Error("two transactions may write at once")
		_ = tx.Rollback()
	}
	if err := first.Rollback(); err != nil {
		t.Error(err)
	}
}

func TestDatabaseIsItsOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	database(t, dir, "normal")
	info, err := os.Stat(filepath.Join(dir, "db"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v (%v)", info.Mode(), err)
	}
}

// Writing all of the file at each start wears out a device's flash.
func TestStartDoesNotWriteTheFileAnew(t *testing.T) {
	dir := t.TempDir()
	run := func() {
		t.Helper()
		s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
	}
	run()
	db := database(t, dir, "normal")
	for _, statement := range []string{"CREATE TABLE junk (x BLOB)", "INSERT INTO junk VALUES (zeroblob(1000000))", "DROP TABLE junk"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	free := number(t, db, "PRAGMA freelist_count")
	if free < 200 {
		t.Fatalf("%d pages are free", free)
	}
	run()
	if got := number(t, database(t, dir, "normal"), "PRAGMA freelist_count"); got < free/2 {
		t.Errorf("%d pages are free after a start, of %d", got, free)
	}
}

// kine itself would try again for minutes.
func TestFileThatIsNoDatabaseFailsAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "db", "state.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSQLite(t.Context(), dir, "normal"); err == nil || !strings.Contains(err.Error(), "state.db") {
		t.Errorf("it is opened: %v", err)
	}
}
