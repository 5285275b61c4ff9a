package server

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// someObjects is a store with two keys.
type someObjects struct{}

func (someObjects) Read(_ context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	return errors.Join(
		begin(dump.Head{Revision: 70, Keys: 2}),
		each(dump.Record{Key: []byte("/registry/a"), Value: []byte("a"), CreateRevision: 5, ModRevision: 5}),
		each(dump.Record{Key: []byte("/registry/b"), Value: []byte("b"), CreateRevision: 5, ModRevision: 70}),
	)
}

func aSnapshot(t *testing.T, pki map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := snapshot.Write(t.Context(), &out, snapshot.Contents{Source: someObjects{}, PKI: pki, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func restore(t *testing.T, dir string, raw []byte) Restored {
	t.Helper()
	done, err := Restore{DataDir: dir, From: bytes.NewReader(raw), Now: time.Now()}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func revisionIn(t *testing.T, dir string) int64 {
	t.Helper()
	n, err := datastore.SQLiteRevision(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The revision must also grow if the old database is lost.
func TestEachRestoreIncreasesTheRevision(t *testing.T) {
	for _, pki := range []map[string][]byte{nil, {"admin.key": []byte("key")}} {
		dir := filepath.Join(t.TempDir(), "data")
		raw := aSnapshot(t, pki)
		first := restore(t, dir, raw)
		if first.Restored <= 70 || first.Restored != revisionIn(t, dir) || len(first.Kept) != 0 || first.PKIRestored != (pki != nil) {
			t.Errorf("%+v, the store is at %d", first, revisionIn(t, dir))
		}
		second := restore(t, dir, raw)
		if second.Restored <= first.Restored || len(second.Kept) == 0 {
			t.Errorf("%+v after %+v", second, first)
		}
		if err := os.RemoveAll(filepath.Join(dir, "db")); err != nil {
			t.Fatal(err)
		}
		if third := restore(t, dir, raw); third.Restored <= second.Restored {
			t.Errorf("%+v after %+v", third, second)
		}
	}
}

func TestRestoreKeepsTheOldData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for path, content := range map[string]string{
		"db/state.db": "somebody's", "db/state.db-wal": "log", "pki/admin.key": "old",
		".restoring-old/pki/admin.key": "of a restore that was killed",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := restore(t, dir, aSnapshot(t, map[string][]byte{"admin.key": []byte("new")}))
	if len(done.Kept) != 2 {
		t.Fatalf("%q are kept", done.Kept)
	}
	for path, want := range map[string]string{
		filepath.Join(done.Kept[0], "state.db"): "somebody's", filepath.Join(done.Kept[0], "state.db-wal"): "log",
		filepath.Join(done.Kept[1], "admin.key"): "old", filepath.Join(dir, "pki", "admin.key"): "new",
	} {
		if raw, err := os.ReadFile(path); err != nil || string(raw) != want {
			t.Errorf("%s: %q (%v)", path, raw, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".restoring-*")); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// TestInterruptedRestoreIsNotServed also checks that another restore completes it.
func TestInterruptedRestoreIsNotServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	restore(t, dir, aSnapshot(t, nil))
	s := &server{cfg: config.Server{DataDir: dir}}
	if err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(restoringFile(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "reap snapshot restore") {
		t.Errorf("it is served: %v", err)
	}
	restore(t, dir, aSnapshot(t, nil))
	if err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStoreThatHasVanishedIsNotServed(t *testing.T) {
	dir := t.TempDir()
	s := &server{cfg: config.Server{DataDir: dir}}
	if err := s.checkStore(t.Context()); err != nil { // the first start
		t.Error(err)
	}
	if err := s.markStore(); err != nil {
		t.Fatal(err)
	}
	if err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "--new-store") {
		t.Errorf("a store that has vanished: %v", err)
	}
	if err := os.WriteFile(markerFile(config.PKIDir(dir)), []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.checkStore(t.Context()); err == nil {
		t.Error("a damaged marker says nothing")
	}
	s.cfg.NewStore = true
	if err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
	s.cfg.NewStore, s.cfg.DatastoreEndpoint = false, "postgres://db/reap"
	if err := s.checkStore(t.Context()); err != nil {
		t.Errorf("a store elsewhere: %v", err)
	}
}
