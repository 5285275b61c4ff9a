package datastore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/bubble"
)

// written makes a database with so many revisions of one key, and returns the data directory.
func written(t *testing.T, revisions int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	const key = "/registry/key"
	revision, err := create(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	for range revisions {
		answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, "v")).Else(clientv3.OpGet(key)).Commit()
		if err != nil || !answer.Succeeded {
			t.Fatal(answer, err)
		}
		revision = answer.Header.Revision
	}
	return dir
}

// TestKineCompacts runs kine as it is configured, but for the interval, until it has compacted: all but the newest
// thousand revisions.
func TestKineCompacts(t *testing.T) {
	const kept = 1000
	dir := written(t, 3*kept/2)
	db := database(t, dir, "normal")
	newest := number(t, db, "SELECT max(id) FROM kine")
	config := driverConfig(Options{Metrics: prometheus.NewRegistry()}, "sqlite://"+dir+"/db/state.db?"+parameters("normal"))
	if config.CompactInterval != 5*time.Minute {
		t.Errorf("it compacts every %s", config.CompactInterval)
	}
	config.CompactInterval = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	backend, _, err := newSQLite(ctx, &running, config, newDisk(dir, 0, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.Start(ctx); err != nil {
		t.Fatal(err)
	}
	compacted := 0
	deadline, tick := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for compacted < newest-kept {
		select {
		case <-tick.C:
			var n sql.NullInt64
			if err := db.QueryRowContext(ctx, "SELECT max(prev_revision) FROM kine WHERE name = 'compact_rev_key'").Scan(&n); err == nil {
				compacted = int(n.Int64)
			}
		case <-deadline:
			t.Fatalf("it has compacted up to revision %d of %d", compacted, newest)
		}
	}
	if compacted > newest-kept {
		t.Errorf("it has compacted up to revision %d of %d: watchers lose what is new", compacted, newest)
	}
}

// TestClientsCompactSQLite: what a client asks to be compacted is, but for the newest thousand revisions.
func TestClientsCompactSQLite(t *testing.T) {
	const kept = 1000
	dir := written(t, 3*kept/2)
	_, c := openIn(t, dir, 0)
	newest, err := c.Get(t.Context(), "/registry/key")
	if err != nil {
		t.Fatal(err)
	}
	revision := newest.Header.Revision
	if _, err := c.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]error{revision - kept - 1: rpctypes.ErrCompacted, revision - kept: nil, revision: nil} {
		if _, err := c.Get(t.Context(), "/registry/key", clientv3.WithRev(at)); !errors.Is(err, want) {
			t.Errorf("reading at revision %d of %d: %v, want %v", at, revision, err, want)
		}
	}
	if _, err := c.Compact(t.Context(), revision-kept); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("compacting again: %v", err)
	}
}

// TestKineLeavesCompactionOfOthersToTheirServers: a datastore that is no SQLite file may have several.
func TestKineLeavesCompactionOfOthersToTheirServers(t *testing.T) {
	start := func(endpoint string) *Store {
		t.Helper()
		s, err := Start(t.Context(), Options{Dir: t.TempDir(), Endpoint: endpoint, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return s
	}
	own := start("")
	other := start(own.Endpoints[0] + "," + own.Endpoints[0]) // kine is an etcd to others
	if !own.Compacts || other.Compacts {
		t.Errorf("compacts itself: SQLite %v, an etcd %v", own.Compacts, other.Compacts)
	}
	if len(other.Endpoints) != 2 {
		t.Errorf("endpoints are %q", other.Endpoints)
	}
	for endpoint, want := range map[string]time.Duration{
		"sqlite://x": 5 * time.Minute, "postgres://x": 0, "mysql://x": 0, "http://x": 0, "unix://x": 0,
	} {
		if got := compactEvery(endpoint); got != want {
			t.Errorf("%s compacts every %s", endpoint, got)
		}
	}
}

// TestStopWaitsForTheDriver: whoever comes next may open the database.
func TestStopWaitsForTheDriver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := &kine{cancel: cancel, wg: &sync.WaitGroup{}}
		began := time.Now()
		k.wg.Go(func() {
			<-ctx.Done()
			time.Sleep(time.Second)
		})
		k.stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPasswordIsNotInTheErrorOfAStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Start(ctx, Options{
		Dir: t.TempDir(), Endpoint: "postgres://user:s3cret@127.0.0.1:1/kine", Metrics: prometheus.NewRegistry(), StartTimeout: 200 * time.Millisecond,
	})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("the error is %v", err)
	}
}
