package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// long is how long a log of these tests may become.
const long = 1 << 20

// openShort opens a database whose log is to stay short. read begins a transaction that reads, beside the server.
func openShort(t *testing.T) (log *writeAhead, c *clientv3.Client, read func() *sql.Tx) {
	t.Helper()
	dir := t.TempDir()
	store, c := openIn(t, dir, 0)
	log = store.engine.(*kine).sqlite.log.(wholeLog).rows.(dialect).group.log
	log.long = long
	db, err := sql.Open(sqliteDriver, sqlitePath(dir)+"?_busy_timeout=30000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it has only read
	return log, c, func() *sql.Tx {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			t.Error(err)
			return nil
		}
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM kine").Scan(&n); err != nil {
			t.Error(err)
		}
		return tx
	}
}

// TestReadsThatOverlapDoNotMakeTheLogEndless: at every moment of this test somebody reads, as clients that list all the time do.
func TestReadsThatOverlapDoNotMakeTheLogEndless(t *testing.T) {
	log, c, read := openShort(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tx := read()
		if tx == nil {
			return
		}
		for ctx.Err() == nil && !t.Failed() {
			next := read()
			if next == nil {
				break
			}
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
	log, c, read := openShort(t)
	tx := read()
	if tx == nil {
		t.FailNow()
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
