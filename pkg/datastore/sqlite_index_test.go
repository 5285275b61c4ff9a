package datastore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
)

// ourIndexes and kinesIndexes are the indexes of a table of ours, and of one of a build that had kine's index of names.
var (
	ourIndexes   = []string{ourIndex, "kine_name_prev_revision_uindex"}
	kinesIndexes = []string{kinesIndex, "kine_name_prev_revision_uindex"}
)

func indexes(t *testing.T, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	return names
}

// insertKeys creates keys, and deletes every tenth of them.
const insertKeys = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
	INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
	SELECT '/registry/x/' || i, 1, 0, 0, 0, 0, randomblob(700) FROM n
	UNION ALL SELECT '/registry/x/' || i, 0, 1, i, i, 0, NULL FROM n WHERE i % 10 = 0`

// countsTo counts the keys of insertKeys as a server does, after a page of them.
func countsTo(t *testing.T, statements *generic.Generic, want int64) {
	t.Helper()
	page, err := statements.ListCurrent(t.Context(), "/registry/", "/registry0", 10, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got, err := statements.CountCurrent(t.Context(), "/registry/", "/registry0"); err != nil || got != want {
		t.Errorf("it counts %d keys (%v), want %d", got, err, want)
	}
}

// TestIndexesOfTheTable: a new database has the two indexes that are needed. kine, and so an older build, makes its six beside them and goes
// on; the next start leaves two again, and says so.
func TestIndexesOfTheTable(t *testing.T) {
	if watchedDriver() == nil {
		t.Skip("kine makes the table without cgo")
	}
	config, d := sqliteConfig(t)
	hook := logrustest.NewGlobal()
	defer logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	const replaced = "the database's index of names has been replaced: keys are counted faster"
	told := func() (n int) {
		for _, e := range hook.AllEntries() {
			if e.Message == replaced {
				n++
			}
		}
		return n
	}
	var keys int64
	for round := range 3 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		statements, _, err := sqliteStatements(ctx, &wg, config, d)
		if err != nil {
			t.Fatal(err)
		}
		if got := indexes(t, statements.DB); !slices.Equal(got, ourIndexes) {
			t.Errorf("the indexes are %v, want %v", got, ourIndexes)
		}
		if got := told(); got != round {
			t.Errorf("after %d starts of kine and one more of ours it is told %d times that an index was replaced", round, got)
		}
		if round == 0 {
			if _, err := statements.DB.ExecContext(ctx, insertKeys); err != nil {
				t.Fatal(err)
			}
			keys = 2700
		}
		countsTo(t, statements, keys)
		stop()
		wg.Wait()

		ctx, stop = context.WithCancel(t.Context())
		config.MetricsRegisterer = prometheus.NewRegistry()
		_, older, err := sqlite.NewVariant(ctx, &wg, sqliteDriver, config)
		if err != nil {
			t.Fatal(err)
		}
		if got := indexes(t, older.DB); len(got) != 7 || !slices.Contains(got, kinesIndex) {
			t.Errorf("kine has the indexes %v", got)
		}
		countsTo(t, older, keys)
		stop()
		wg.Wait()
		config.MetricsRegisterer = prometheus.NewRegistry()
	}
}

// tableOfKinesIndex is a database that an older build of reap has left: with kine's index of names.
func tableOfKinesIndex(t *testing.T, dir string) (*sql.DB, *disk) {
	t.Helper()
	db := database(t, dir, "normal")
	d := newDisk(filepath.Dir(sqlitePath(dir)), 0, prometheus.NewRegistry())
	if _, err := makeTable(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"DROP INDEX " + ourIndex, "CREATE INDEX " + kinesIndex + " ON kine (name, id)", insertKeys, "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db, d
}

// TestIndexThatTakesTooLongStaysKines interrupts the exchange of the index ever later, until it is complete.
func TestIndexThatTakesTooLongStaysKines(t *testing.T) {
	db, d := tableOfKinesIndex(t, t.TempDir())
	within := time.Microsecond
	for ; ; within *= 2 {
		index, err := makeIndex(t.Context(), db, d, within)
		if err != nil {
			t.Fatal(err)
		}
		got := indexes(t, db)
		if index == ourIndex {
			if !slices.Equal(got, ourIndexes) {
				t.Errorf("at the end the indexes are %v", got)
			}
			break
		}
		if index != kinesIndex || !slices.Equal(got, kinesIndexes) {
			t.Fatalf("after %s it has the index %q, and there are %v", within, index, got)
		}
	}
	if within == time.Microsecond {
		t.Error("it was never interrupted")
	}
	var verdict string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("SQLite says %q (%v)", verdict, err)
	}
}

// TestIndexThatTheDiskHasNoRoomForStaysKines: a server starts, lists, counts and catches up with kine's index, and a start with room has ours.
func TestIndexThatTheDiskHasNoRoomForStaysKines(t *testing.T) {
	if watchedDriver() == nil {
		t.Skip("kine makes the table without cgo")
	}
	dir := smallDisk(t, "12m")
	db, _ := tableOfKinesIndex(t, dir)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	free, _ := freeOn(dir)
	if err := os.WriteFile(filler, make([]byte, free-2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(want string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		config, d := sqliteConfigIn(t, dir)
		statements, index, err := sqliteStatements(ctx, &wg, config, d)
		if err != nil || index != want {
			t.Fatalf("the index is %q (%v), want %q", index, err, want)
		}
		countsTo(t, statements, 2700)
		batch, _, err := newChanges(statements.DB, index).after(ctx, "/registry/x/", "/registry/x0", 0, 10)
		if err != nil || len(batch.Events) != 10 {
			t.Errorf("it catches up with %d changes, %v", len(batch.Events), err)
		}
	}
	start(kinesIndex)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	start(ourIndex)
}

// TestKeysAreCountedWithoutTheirRows: kine's statements look for the row of each.
func TestKeysAreCountedWithoutTheirRows(t *testing.T) {
	statements, index := logOfRows(t)
	if index != ourIndex {
		t.Skip("kine makes the table without cgo")
	}
	for _, statement := range []string{
		statements.CountCurrentSQL.Query, statements.CountRevisionSQL.Query, statements.CountAllCurrentSQL.Query, statements.CountAllRevisionSQL.Query,
	} {
		plan := strings.Join(planOf(t, statements.DB, statement, make([]any, strings.Count(statement, "?"))...), "\n")
		if !strings.Contains(plan, "kine USING COVERING INDEX "+index) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "rowid") {
			t.Errorf("%s\nreads more than the index:\n%s", statement, plan)
		}
	}
}
