package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
)

// withoutLog returns a data directory whose server was killed, and whose database then lost its write-ahead log; the revision that the
// database ends with, and the last one that its clients had been given, after the mark.
func withoutLog(t *testing.T, level string) (s *server, found, given int64) {
	t.Helper()
	dir := t.TempDir()
	s = &server{cfg: config.Server{DataDir: dir, SQLiteSynchronous: level}}
	if err := writeMarker(config.PKIDir(dir), marker{Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	run := func(from, to int, meanwhile func(*datastore.Store)) {
		store, err := datastore.Start(t.Context(), datastore.Options{Dir: dir, Synchronous: level, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Stop()
		c := store.Client()
		defer func() { _ = c.Close() }()
		put := func(from, to int) {
			for i := range to - from {
				key := fmt.Sprintf("/registry/configmaps/default/%03d", from+i)
				answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "{}")).Commit()
				if err != nil {
					t.Fatal(err)
				}
				given = answer.Header.Revision
			}
		}
		put(from, to)
		meanwhile(store)
		put(to, to+10)
	}
	run(0, 20, func(*datastore.Store) {})
	database := filepath.Join(dir, "db", "state.db")
	var rest []byte
	run(30, 70, func(store *datastore.Store) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.mark(ended, store)
		var err error
		if rest, err = os.ReadFile(database); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.WriteFile(database, rest, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{database + "-wal", database + "-shm"} { // a stop may leave them
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	found, err := datastore.SQLiteRevision(t.Context(), dir)
	if err != nil || found < 20 || found > 40 {
		t.Fatalf("without its log it ends with revision %d (%v)", found, err)
	}
	return s, found, given
}

// TestDatabaseWithoutItsLogIsRefused: until the operator accepts the very revision, and then no revision is given out twice.
func TestDatabaseWithoutItsLogIsRefused(t *testing.T) {
	s, found, given := withoutLog(t, "full")
	before, err := readReached(config.PKIDir(s.cfg.DataDir))
	if err != nil || before.Revision < found+40 || !before.Synced {
		t.Fatalf("the mark is %+v (%v)", before, err)
	}
	for _, accepted := range []string{"", "1", strconv.FormatInt(found+1, 10)} {
		s.cfg.AcceptRevision = accepted
		if _, err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("--accept-revision=%d,", found)) ||
			!strings.Contains(err.Error(), strconv.FormatInt(before.Revision, 10)) {
			t.Errorf("with revision %q accepted: %v", accepted, err)
		}
	}
	if now, err := datastore.SQLiteRevision(t.Context(), s.cfg.DataDir); err != nil || now != found {
		t.Errorf("a refusal changed the revision to %d (%v)", now, err)
	}
	s.cfg.AcceptRevision = strconv.FormatInt(found, 10)
	gone, err := s.checkStore(t.Context())
	if err != nil || gone == nil {
		t.Fatalf("accepted: %+v, %v", gone, err)
	}
	wentOn(t, s, gone, before.Revision, given)
}

// wentOn checks that a server goes on without what is gone: with the collector held, its objects, and revisions that no client was given.
func wentOn(t *testing.T, s *server, gone *loss, reached, given int64) {
	t.Helper()
	if err := s.goOn(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	var r restored
	if held, err := readRecord(restoredFile(s.cfg.DataDir), &r); err != nil || !held || r.Lost != reached-gone.found || !strings.Contains(r.cause(), "lost at least") {
		t.Errorf("the next start holds the collector: %v, %+v (%v)", held, r, err)
	}
	if again, err := s.checkStore(t.Context()); err != nil || again != nil {
		t.Errorf("the start after it lacks %+v (%v)", again, err)
	}
	store, err := datastore.Start(t.Context(), datastore.Options{Dir: s.cfg.DataDir, Synchronous: "full", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	c := store.Client()
	defer func() { _ = c.Close() }()
	all, err := c.Get(t.Context(), "/registry/configmaps/", clientv3.WithRange("/registry/configmaps0"))
	if err != nil || len(all.Kvs) < 20 {
		t.Errorf("%d objects are left (%v)", len(all.Kvs), err)
	}
	put, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("/registry/x"), "=", 0)).Then(clientv3.OpPut("/registry/x", "{}")).Commit()
	if err != nil || put.Header.Revision <= given || given <= reached {
		t.Errorf("after revision %d, and the mark of %d, the next one is %+v (%v)", given, reached, put, err)
	}
	if c, known, err := store.Verify(t.Context(), func(int64, int64) {}); err != nil || !known || len(c.Problems) > 0 {
		t.Errorf("a check says %q (%v)", c.Problems, err)
	}
}

// TestPowerCutMayTakeTheLastWritesOfNormal: by design, so the server starts.
func TestPowerCutMayTakeTheLastWritesOfNormal(t *testing.T) {
	s, _, given := withoutLog(t, "normal")
	before, err := readReached(config.PKIDir(s.cfg.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := s.checkStore(t.Context())
	if err != nil || gone == nil {
		t.Fatalf("it lacks %+v, %v", gone, err)
	}
	wentOn(t, s, gone, before.Revision, given)
}

// TestDamagedMarkIsRefused: it is not taken for none.
func TestDamagedMarkIsRefused(t *testing.T) {
	s, _, _ := withoutLog(t, "full")
	path := reachedFile(config.PKIDir(s.cfg.DataDir))
	for _, content := range []string{"", "{", "{}", "null", `{"revision": -1}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the mark %q: %v", content, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.checkStore(t.Context()); err != nil || gone != nil {
		t.Errorf("a data directory of an older build: %+v, %v", gone, err)
	}
}

// TestLogThatWasCutOffIsNoticed, also when the mark is older than the loss: SQLite's own index of the log says how long it was. The next start still knows.
func TestLogThatWasCutOffIsNoticed(t *testing.T) {
	from := t.TempDir()
	store, err := datastore.Start(t.Context(), datastore.Options{Dir: from, Synchronous: "full", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	c := store.Client()
	defer func() { _ = c.Close() }()
	for i := range 30 {
		key := fmt.Sprintf("/registry/configmaps/default/%03d", i)
		if _, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "{}")).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	killed := func(level, boot string, cut bool) *server {
		s := &server{cfg: config.Server{DataDir: t.TempDir(), SQLiteSynchronous: level}}
		if err := writeMarker(config.PKIDir(s.cfg.DataDir), marker{Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := writeRecord(reachedFile(config.PKIDir(s.cfg.DataDir)), reached{Revision: 1, Synced: s.synced(), Boot: boot}); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(s.cfg.DataDir, "db"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"state.db", "state.db-wal", "state.db-shm"} {
			raw, err := os.ReadFile(filepath.Join(from, "db", name))
			if err != nil {
				t.Fatal(err)
			}
			if cut && name == "state.db-wal" {
				raw = raw[:len(raw)*2/3]
			}
			if err := os.WriteFile(filepath.Join(s.cfg.DataDir, "db", name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	if boot() == "" {
		t.Fatal("the boot is not known")
	}
	for _, level := range []string{"full", "normal"} {
		if gone, err := killed(level, boot(), false).checkStore(t.Context()); gone != nil || err != nil {
			t.Errorf("%s: with all of its log it lacks %+v (%v)", level, gone, err)
		}
		// After a power cut the index may be of any moment.
		for _, other := range []string{"", "another"} {
			if gone, err := killed(level, other, true).checkStore(t.Context()); gone != nil || err != nil {
				t.Errorf("%s: after a power cut it lacks %+v (%v)", level, gone, err)
			}
		}
	}
	s := killed("full", boot(), true)
	for range 2 {
		if _, err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "--accept-revision=") {
			t.Errorf("a start says %v", err)
		}
	}
	s = killed("normal", boot(), true)
	gone, err := s.checkStore(t.Context())
	if err != nil || gone == nil || gone.reached <= gone.found {
		t.Fatalf("with normal: it lacks %+v (%v)", gone, err)
	}
	if again, err := s.checkStore(t.Context()); err != nil || again == nil || *again != *gone {
		t.Errorf("with normal: the next start lacks %+v (%v)", again, err)
	}
}
