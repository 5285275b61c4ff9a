package datastore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A read that its caller has ended is an error, also if nothing has noticed: database/sql may have left rows out then.
func TestReadThatItsCallerEndedIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := orEnded(ctx, nil); err != nil {
		t.Errorf("a whole read: %v", err)
	}
	if err := orEnded(ctx, sql.ErrConnDone); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("a read that failed: %v", err)
	}
	cancel()
	for _, err := range []error{nil, sql.ErrConnDone} {
		if err := orEnded(ctx, err); !errors.Is(err, context.Canceled) {
			t.Errorf("a read that its caller has ended: %v", err)
		}
	}
}

// TestReadThatFailsHalfWay: a list of which a page cannot be read is an error, and no shorter list; so is a watch that
// cannot read what it has missed.
func TestReadThatFailsHalfWay(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	begin := int64(0)
	for i := range n {
		answer, err := put(t.Context(), c, fmt.Sprintf("/registry/x/%06d", i), strings.Repeat("v", 1000), 0)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			begin = answer.Header.Revision
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	breakPageOf(t, dir, fmt.Sprintf("/registry/x/%06d", n/2))

	_, c = openIn(t, dir, 0)
	for name, opts := range map[string][]clientv3.OpOption{
		"list": {clientv3.WithPrefix()},
		"page": {clientv3.WithPrefix(), clientv3.WithLimit(n - 1)},
	} {
		got, err := c.Get(t.Context(), "/registry/x/", opts...)
		if err == nil {
			t.Errorf("a %s of %d objects was answered with %d", name, n, len(got.Kvs))
			continue
		}
		if code, _ := Explain(err.Error()); code != http.StatusServiceUnavailable {
			t.Errorf("a %s that cannot be read whole is answered with %v", name, err)
		}
	}
	if got, err := stream(t.Context(), c, "/registry/x/", clientv3.WithPrefix()); err == nil {
		t.Errorf("a streamed list of %d objects was answered with %d", n, len(got.Kvs))
	} else if code, _ := Explain(err.Error()); code != http.StatusServiceUnavailable {
		t.Errorf("a streamed list that cannot be read whole is answered with %v", err)
	}
	// The object on the page itself is not taken for absent either.
	if got, err := c.Get(t.Context(), fmt.Sprintf("/registry/x/%06d", n/2)); err == nil {
		t.Errorf("an object that cannot be read is answered with %v", got.Kvs)
	}
	// Nor is it created again.
	if answer, err := put(t.Context(), c, fmt.Sprintf("/registry/x/%06d", n/2), "again", 0); err == nil && answer.Succeeded {
		t.Error("an object that cannot be read was created again")
	}
	// A watch ends before it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	for r := range c.Watch(ctx, "/registry/x/", clientv3.WithPrefix(), clientv3.WithRev(begin)) {
		for _, e := range r.Events {
			if want := fmt.Sprintf("/registry/x/%06d", seen); string(e.Kv.Key) != want {
				t.Fatalf("a watch went on with %s, not %s", e.Kv.Key, want)
			}
			seen++
		}
	}
	if ctx.Err() != nil || seen > n/2 {
		t.Errorf("a watch did not end where it could not read on, with %d events", seen)
	}
}

// breakPageOf damages the page of the table that holds a key.
func breakPageOf(t *testing.T, dir, key string) {
	t.Helper()
	path := sqlitePath(dir)
	db, err := sql.Open(sqliteDriver, path)
	if err != nil {
		t.Fatal(err)
	}
	var size int
	if err := db.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const tableLeaf = 0x0d
	for at := size; at < len(raw); at += size {
		if page := raw[at : at+size]; page[0] == tableLeaf && bytes.Contains(page, []byte(key)) {
			page[0] = 0xff
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no page of the table holds %s", key)
}
