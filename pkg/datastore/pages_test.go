package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/prometheus/client_golang/prometheus"
)

// sqliteConfig is how a database in a new directory is opened.
func sqliteConfig(t *testing.T) (*drivers.Config, *disk) {
	t.Helper()
	dir := t.TempDir()
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
	statements, err := sqliteStatements(ctx, &wg, config, d)
	if err != nil {
		t.Fatal(err)
	}
	for statement, args := range map[string][]any{
		statements.ListCurrentSQL.Query:         {"/registry/a/", "/registry/a0", false},
		statements.ListCurrentValSQL.Query:      {"/registry/a/", "/registry/a0", false},
		statements.GetRevisionAfterSQL.Query:    {"/registry/a/", "/registry/a0", 1, false},
		statements.GetRevisionAfterValSQL.Query: {"/registry/a/", "/registry/a0", 1, false},
	} {
		rows, err := statements.DB.QueryContext(ctx, "EXPLAIN QUERY PLAN "+statement, args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
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
		all := strings.Join(plan, "\n")
		if !strings.Contains(all, "SEARCH kv USING INDEX kine_name_id_index") || strings.Contains(all, "TEMP B-TREE") || strings.Contains(all, "MATERIALIZE") {
			t.Errorf("%s reads more than it answers:\n%s", statement, all)
		}
	}
}

// TestIndexesOfTheTable: a new database, and one of kine with all its indexes, has the two that are needed.
func TestIndexesOfTheTable(t *testing.T) {
	if watchedDriver() == nil {
		t.Skip("kine makes the table without cgo")
	}
	config, d := sqliteConfig(t)
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		statements, err := sqliteStatements(ctx, &wg, config, d)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := indexes(t, statements.DB), []string{"kine_name_id_index", "kine_name_prev_revision_uindex"}; !slices.Equal(got, want) {
			t.Errorf("the indexes are %v, want %v", got, want)
		}
		for i, columns := range []string{"name", "id, deleted", "prev_revision", "id, name, prev_revision"} {
			name := []string{"kine_name_index", "kine_id_deleted_index", "kine_prev_revision_index", "kine_id_compact_rev_key_with_prev_revision_index"}[i]
			if _, err := statements.DB.ExecContext(ctx, fmt.Sprintf("CREATE INDEX %s ON kine (%s)", name, columns)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		wg.Wait()
		config.MetricsRegisterer = prometheus.NewRegistry()
	}
}

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
