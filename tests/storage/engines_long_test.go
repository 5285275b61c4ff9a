//go:build releasetest

package storage

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/reap-dev/reap/tests/databases"
)

// TestSuiteOnSQLiteThroughItsSocket: the socket is for others; the API server has a client without a connection.
func TestSuiteOnSQLiteThroughItsSocket(t *testing.T) {
	e := sqlite
	e.dial = true
	e.mustPass(t)
}

func TestSuiteOnPostgreSQL(t *testing.T) { postgreSQL(t).mustPass(t) }

// postgreSQL starts a PostgreSQL, which has a database for each datastore.
func postgreSQL(t *testing.T) engine {
	t.Helper()
	_, endpoint := databases.Postgres(t)
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int64
	return engine{endpoint: func() string {
		its := *u
		its.Path = fmt.Sprintf("/suite%d", made.Add(1)) // kine makes it
		return its.String()
	}}
}

// TestListOnPostgreSQLMayLackAnEarlierWrite: PostgreSQL gives a write its revision before it is committed. What was written later may be
// committed first; a list then has the later revision and lacks the earlier write, and no watch from there shows it (kine#676). If this
// fails, kine has mended that: docs/datastore.md tells users of it.
func TestListOnPostgreSQLMayLackAnEarlierWrite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := postgreSQL(t)
	endpoint := e.endpoint()
	e.endpoint = func() string { return endpoint }
	s := e.plain(t)
	// Another server writes: this is kine's statement in a transaction that takes its time to commit.
	db, err := sql.Open("pgx", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // all has been committed
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // if it is not committed
	pod := func(name string) *example.Pod {
		return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	encoded, err := runtime.Encode(s.codec, pod("early"))
	if err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO kine(name, created, deleted, create_revision, prev_revision, lease, value, old_value)
		VALUES ($1, 1, 0, 0, 0, 0, $2, '') RETURNING id`
	var early int64
	if err := tx.QueryRowContext(ctx, insert, resource+"ns/early", append([]byte(prefix), encoded...)).Scan(&early); err != nil {
		t.Fatal(err)
	}
	var late example.Pod
	if err := s.Create(ctx, resource+"ns/late", pod("late"), &late, 0); err != nil {
		t.Fatal(err)
	}
	read := func() (names []string, resourceVersion string) {
		t.Helper()
		resourceVersion, err := list(ctx, s, resource+"ns", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, func(pod *example.Pod) bool {
			names = append(names, pod.Name)
			return false
		})
		if err != nil {
			t.Fatal(err)
		}
		return names, resourceVersion
	}
	before, from := read()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	after, _ := read()
	if fmt.Sprint(before, after) != "[late] [early late]" {
		t.Fatalf("lists showed %v, then %v", before, after)
	}
	if now, err := strconv.ParseInt(from, 10, 64); err != nil || from != late.ResourceVersion || early >= now {
		t.Fatalf("the list has revision %s; the objects have %d and %s (%v)", from, early, late.ResourceVersion, err)
	}
	// What a watch from the list shows first is the next write.
	if err := s.Create(ctx, resource+"ns/next", pod("next"), nil, 0); err != nil {
		t.Fatal(err)
	}
	var shown string
	err = await(ctx, s, resource+"ns", storage.ListOptions{ResourceVersion: from, Predicate: storage.Everything, Recursive: true}, func(pod *example.Pod) bool {
		shown = pod.Name
		return true
	})
	if err != nil || shown != "next" {
		t.Errorf("a watch from the list shows %q first (%v)", shown, err)
	}
}
