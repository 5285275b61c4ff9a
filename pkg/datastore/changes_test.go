package datastore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
)

// logOfRows opens a database without rows, which is closed with the test, and says which index its table has.
func logOfRows(t testing.TB) (_ *generic.Generic, index string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	config, d := sqliteConfig(t)
	statements, index, err := sqliteStatements(ctx, &wg, config, d)
	if err != nil {
		t.Fatal(err)
	}
	return statements, index
}

const insertChange = `INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`

// TestChangesAreThoseOfKine compares pages of random logs, from which a compaction has taken rows, with what kine's statement answers.
func TestChangesAreThoseOfKine(t *testing.T) {
	statements, index := logOfRows(t)
	const rows = 600
	r := rand.New(rand.NewPCG(1, 2))
	tx, err := statements.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(insertChange, 1, "compact_rev_key", 1, 0, 0, 40, nil, nil); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"a", "a", "a", "a", "b", "c"}
	last := map[string]int{}
	for id := 2; id <= rows; id++ {
		if r.IntN(4) == 0 {
			continue // compacted
		}
		name := fmt.Sprintf("/registry/%s/%d", kinds[r.IntN(len(kinds))], r.IntN(60))
		if id > rows/2 && id < rows-20 && !strings.HasPrefix(name, "/registry/a/") {
			continue // nothing else happens for a while
		}
		was := last[name]
		if _, err := tx.Exec(insertChange, id, name, min(1, was)^1, r.IntN(3)/2, was, was, []byte(fmt.Sprint("value ", id)), []byte("old")); err != nil {
			t.Fatal(err)
		}
		last[name] = id
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	far := 0
	for range 1000 {
		kind := []string{"a", "b", "c", "d"}[r.IntN(4)]
		key, end := "/registry/"+kind+"/", "/registry/"+kind+"0"
		revision, limit := int64(r.IntN(rows+2)), int64(1+r.IntN(60))
		c := newChanges(statements.DB, index)
		c.nearby = int64(1 + r.IntN(100))
		got, compacted, err := c.after(t.Context(), key, end, revision, limit)
		if err != nil {
			t.Fatal(err)
		}
		kines, err := statements.After(t.Context(), key, end, revision, limit)
		if err != nil {
			t.Fatal(err)
		}
		want, wantCompacted, err := sqllog.RowsToEvents(kines, true, true)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || compacted != wantCompacted {
			t.Fatalf("%s after %d, at most %d, nearby %d: %v, compacted at %d; kine's: %v, %d", key, revision, limit, c.nearby, got, compacted, want, wantCompacted)
		}
		if n := len(got.Events); n > 0 && got.Events[n-1].KV.ModRevision > revision+c.nearby {
			far++
		}
	}
	if far < 100 {
		t.Errorf("only %d pages went further than what is nearby", far)
	}
}

// TestCatchingUpReadsNoFurther: a page of changes is answered in the order of the log, or found in an index.
func TestCatchingUpReadsNoFurther(t *testing.T) {
	statements, index := logOfRows(t)
	for statement, reads := range map[string]string{
		near:                                 "SEARCH kv USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		newChanges(statements.DB, index).far: "SEARCH same USING COVERING INDEX " + index + " (name>? AND name<?)",
	} {
		args := make([]any, strings.Count(statement, "?"))
		for i := range args {
			args[i] = 0
		}
		plan := strings.Join(planOf(t, statements.DB, statement, args...), "\n")
		sorts := strings.Count(plan, "TEMP B-TREE")
		if !strings.Contains(plan, reads) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "MATERIALIZE") || sorts > 0 && statement == near || sorts > 1 {
			t.Errorf("%s\nreads more than it answers:\n%s", statement, plan)
		}
	}
}

// BenchmarkCatchUp reads a page of 200 changes of 50,000 that a watch has missed.
func BenchmarkCatchUp(b *testing.B) {
	statements, index := logOfRows(b)
	if _, err := statements.DB.ExecContext(b.Context(), `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= 100000)
		INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value)
		SELECT i, '/registry/' || iif(i % 1000, 'many', 'few') || '/' || i, 1, 0, i, 0, 0, randomblob(500), randomblob(500) FROM n`); err != nil {
		b.Fatal(err)
	}
	ours := newChanges(statements.DB, index)
	for _, of := range []string{"many", "few"} {
		key, end := "/registry/"+of+"/", "/registry/"+of+"0"
		b.Run(of+"/kine", func(b *testing.B) {
			for b.Loop() {
				rows, err := statements.After(b.Context(), key, end, 50_000, 200)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := sqllog.RowsToEvents(rows, true, true); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(of+"/reap", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := ours.after(b.Context(), key, end, 50_000, 200); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
