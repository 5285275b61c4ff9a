package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

func logOf(s *Store) *writeAhead {
	return s.engine.(*kine).sqlite.log.(wholeLog).rows.(dialect).group.log
}

// TestReadsThatOverlapDoNotMakeTheLogEndless: at every moment of this test somebody reads, as clients that list all the time do.
func TestReadsThatOverlapDoNotMakeTheLogEndless(t *testing.T) {
	const long = 1 << 20
	dir := t.TempDir()
	store, c := openIn(t, dir, 0)
	log := logOf(store)
	log.long = long

	db, err := sql.Open(sqliteDriver, sqlitePath(dir)+"?_busy_timeout=30000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it has only read
	read := func() *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM kine").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tx := read()
		for ctx.Err() == nil {
			next := read()
			_ = tx.Rollback()
			tx = next
		}
		_ = tx.Rollback()
	}()
	defer func() { stop(); <-ended }()

	value := strings.Repeat("x", 32<<10)
	var longest int64
	for i := range 640 { // 20 MiB
		if _, err := put(t.Context(), c, fmt.Sprint("/registry/k/", i), value, 0); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, log.size())
	}
	if longest > 3*long {
		t.Errorf("the log has grown to %d bytes", longest)
	}
}

// A read that does not end holds writes up for a moment, and again when the log has grown by a quarter.
func TestLongReadHoldsUpWritesSeldom(t *testing.T) {
	const long = 1 << 20
	dir := t.TempDir()
	store, c := openIn(t, dir, 0)
	log := logOf(store)
	log.long = long
	db, err := sql.Open(sqliteDriver, sqlitePath(dir)+"?_busy_timeout=30000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // it has only read
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM kine").Scan(&n); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("x", 32<<10)
	tried, tryAt := 0, int64(0)
	for i := range 64 { // 2 MiB
		if _, err := put(t.Context(), c, fmt.Sprint("/registry/k/", i), value, 0); err != nil {
			t.Fatal(err)
		}
		if log.tryAt != tryAt {
			tried, tryAt = tried+1, log.tryAt
		}
	}
	if most := int((log.size()-long)/(long/4)) + 1; tried == 0 || tried > most {
		t.Errorf("writes were held up %d times, and may be %d times", tried, most)
	}
	if log.size() < 2*long {
		t.Errorf("the log has %d bytes: the read holds nothing up", log.size())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := 0; log.size() >= long; i++ {
		if _, err := put(t.Context(), c, fmt.Sprint("/registry/after/", i), value, 0); err != nil || i > 100 {
			t.Fatalf("the log stays at %d bytes: %v", log.size(), err)
		}
	}
}
