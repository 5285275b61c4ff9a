package datastore

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/k3s-io/kine/pkg/query"
	"github.com/prometheus/client_golang/prometheus"
)

// sqliteConfig is how a database in a new directory is opened.
func sqliteConfig(t testing.TB) (*drivers.Config, *disk) {
	t.Helper()
	return sqliteConfigIn(t, t.TempDir())
}

// sqliteConfigIn is how the database of a data directory is opened.
func sqliteConfigIn(t testing.TB, dir string) (*drivers.Config, *disk) {
	t.Helper()
	dsn, err := openSQLite(t.Context(), dir, "normal")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Metrics: prometheus.NewRegistry()}
	config := driverConfig(o, dsn)
	config.DataSourceName = strings.TrimPrefix(dsn, "sqlite://")
	return config, newDisk(dir, 0, o.Metrics)
}

// TestPageOfAListReadsNoFurther: a list is answered in the order of an index.
func TestPageOfAListReadsNoFurther(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	config, d := sqliteConfig(t)
	statements, index, err := sqliteStatements(ctx, &wg, config, d)
	if err != nil {
		t.Fatal(err)
	}
	for statement, args := range map[string][]any{
		statements.ListCurrentSQL.Query:         {"/registry/a/", "/registry/a0", false},
		statements.ListCurrentValSQL.Query:      {"/registry/a/", "/registry/a0", false},
		statements.GetRevisionAfterSQL.Query:    {"/registry/a/", "/registry/a0", 1, false},
		statements.GetRevisionAfterValSQL.Query: {"/registry/a/", "/registry/a0", 1, false},
	} {
		plan := planOf(t, statements.DB, statement, args...)
		all := strings.Join(plan, "\n")
		if !strings.Contains(all, "SEARCH kv USING INDEX "+index) || strings.Contains(all, "TEMP B-TREE") || strings.Contains(all, "MATERIALIZE") {
			t.Errorf("%s reads more than it answers:\n%s", statement, all)
		}
	}
}

// planOf returns the steps in which a statement would be answered.
func planOf(t testing.TB, db *sql.DB, statement string, args ...any) (plan []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	for rows.Next() {
		var a, b, c int
		var step string
		if err := rows.Scan(&a, &b, &c, &step); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestNoStatementScansForWantOfAnIndex: with two of kine's six indexes, and with our statements, none reads the whole table that kine's
// own does not read with all six.
func TestNoStatementScansForWantOfAnIndex(t *testing.T) {
	if watchedDriver() == nil {
		t.Skip("kine makes the table without cgo")
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	config, d := sqliteConfig(t)
	ours, _, err := sqliteStatements(ctx, &wg, config, d)
	if err != nil {
		t.Fatal(err)
	}
	config, _ = sqliteConfig(t)
	_, kines, err := sqlite.NewVariant(ctx, &wg, sqliteDriver, config)
	if err != nil {
		t.Fatal(err)
	}
	for _, statements := range []*generic.Generic{ours, kines} {
		if _, err := statements.DB.ExecContext(ctx, `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= 100000)
			INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value)
			SELECT i, '/registry/' || (i % 100) || '/' || i, 1, 0, i, 0, 0, 'value', NULL FROM n`); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(indexes(t, kines.DB)); got != 6 {
		t.Fatalf("kine makes %d indexes", got)
	}
	scans := func(statements *generic.Generic, q *query.Named) (all []string) {
		args := make([]any, strings.Count(q.Query, "?"))
		for i := range args {
			args[i] = 0
		}
		for _, step := range planOf(t, statements.DB, q.Query, args...) {
			if strings.HasPrefix(step, "SCAN ") && step != "SCAN CONSTANT ROW" {
				scan, _, _ := strings.Cut(step, "INDEX ") // a scan of any index that has all columns is as good as kine's
				all = append(all, scan)
			}
		}
		return all
	}
	tried := 0
	our, kine := reflect.ValueOf(ours).Elem(), reflect.ValueOf(kines).Elem()
	for i := range our.NumField() {
		q, ok := our.Field(i).Interface().(*query.Named)
		if !ok || q == nil || strings.HasPrefix(q.Query, "PRAGMA") {
			continue
		}
		tried++
		with := scans(kines, kine.Field(i).Interface().(*query.Named))
		for _, step := range scans(ours, q) {
			if !slices.Contains(with, step) {
				t.Errorf("%s: %s; kine's: %q", q.Name, step, with)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d statements were tried", tried)
	}
}
