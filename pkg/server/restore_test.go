package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// someObjects is a store with two keys.
type someObjects struct{}

func (someObjects) Read(_ context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	return errors.Join(
		begin(dump.Head{Revision: 70, Keys: 2}),
		each(dump.Record{Key: []byte("/registry/a"), Value: []byte("{}"), CreateRevision: 5, ModRevision: 5}),
		each(dump.Record{Key: []byte("/registry/b"), Value: []byte("{}"), CreateRevision: 5, ModRevision: 70}),
	)
}

// somePKI are the files of a server's PKI.
func somePKI(t *testing.T) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := pki.Ensure(dir, pki.Options{}); err != nil {
		t.Fatal(err)
	}
	files, err := pki.Contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
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
	for _, pki := range []map[string][]byte{nil, somePKI(t)} {
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
	keys := somePKI(t)
	done := restore(t, dir, aSnapshot(t, keys))
	if len(done.Kept) != 2 {
		t.Fatalf("%q are kept", done.Kept)
	}
	for path, want := range map[string]string{
		filepath.Join(done.Kept[0], "state.db"): "somebody's", filepath.Join(done.Kept[0], "state.db-wal"): "log",
		filepath.Join(done.Kept[1], "admin.key"): "old", filepath.Join(dir, "pki", "admin.key"): string(keys["admin.key"]),
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
	if _, err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(restoringFile(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "reap snapshot restore") {
		t.Errorf("it is served: %v", err)
	}
	restore(t, dir, aSnapshot(t, nil))
	if _, err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStoreThatHasVanishedIsNotServed(t *testing.T) {
	dir := t.TempDir()
	s := &server{cfg: config.Server{DataDir: dir}}
	if _, err := s.checkStore(t.Context()); err != nil { // the first start
		t.Error(err)
	}
	if err := s.markStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.checkStore(t.Context()); err == nil || !strings.Contains(err.Error(), "--new-store") {
		t.Errorf("a store that has vanished: %v", err)
	}
	if err := os.WriteFile(markerFile(config.PKIDir(dir)), []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.checkStore(t.Context()); err == nil {
		t.Error("a damaged marker says nothing")
	}
	s.cfg.NewStore = true
	if _, err := s.checkStore(t.Context()); err != nil {
		t.Error(err)
	}
	s.cfg.NewStore, s.cfg.DatastoreEndpoint = false, "postgres://db/reap"
	if _, err := s.checkStore(t.Context()); err != nil {
		t.Errorf("a store elsewhere: %v", err)
	}
}

// TestRestoreOverADamagedEtcd: the restore is the remedy for it, and makes an etcd again without being told.
func TestRestoreOverADamagedEtcd(t *testing.T) {
	database := filepath.Join("etcd", "member", "snap", "db")
	for how, damage := range map[string]func(t *testing.T, path string, raw []byte) error{
		"cut off": func(_ *testing.T, path string, _ []byte) error { return os.Truncate(path, 5*4096) },
		"empty":   func(_ *testing.T, path string, _ []byte) error { return os.Truncate(path, 0) },
		"pages that are none": func(_ *testing.T, path string, raw []byte) error {
			for i := 2 * 4096; i < len(raw); i++ {
				raw[i] ^= 0x5a
			}
			return os.WriteFile(path, raw, 0o600)
		},
		"the log lost": func(t *testing.T, path string, _ []byte) error {
			return os.RemoveAll(filepath.Join(filepath.Dir(path), "..", "wal"))
		},
		"the log and the database": func(t *testing.T, path string, _ []byte) error { return os.RemoveAll(filepath.Dir(filepath.Dir(path))) },
	} {
		t.Run(how, func(t *testing.T) {
			dir := withStore(t, config.EmbeddedEtcd)
			raw, err := os.ReadFile(filepath.Join(dir, database))
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(t, filepath.Join(dir, database), raw); err != nil {
				t.Fatal(err)
			}
			done := restore(t, dir, aSnapshot(t, nil))
			if done.Engine != config.EmbeddedEtcd || len(done.Kept) != 1 {
				t.Errorf("%+v", done)
			}
			if got, err := datastore.EtcdRevision(t.Context(), dir); err != nil || got != done.Restored {
				t.Errorf("it is at revision %d (%v), want %d", got, err, done.Restored)
			}
			if kept, err := os.Stat(done.Kept[0]); err != nil || !kept.IsDir() {
				t.Errorf("the old one: %v", err)
			}
		})
	}
}

// TestRestoreTakesNoRevisionThatDamageHasMade: the sum would be negative, or the next one.
func TestRestoreTakesNoRevisionThatDamageHasMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := restore(t, dir, aSnapshot(t, nil))
	if err := writeMarker(config.PKIDir(dir), marker{Revision: math.MaxInt64 - 7}); err != nil {
		t.Fatal(err)
	}
	if got := restore(t, dir, aSnapshot(t, nil)); got.Restored != first.Restored+beyond {
		t.Errorf("at %d, want %d", got.Restored, first.Restored+beyond)
	}
}

// TestRestoreThatEtcdHasNoRoomForChangesNothing: the store would take no objects once it is in its place.
func TestRestoreThatEtcdHasNoRoomForChangesNothing(t *testing.T) {
	dir := withStore(t, datastore.SQLite)
	before := contents(t, dir)
	_, err := Restore{
		DataDir: dir, From: bytes.NewReader(aSnapshot(t, nil)), Engine: config.EmbeddedEtcd, Now: time.Now(), etcdQuota: 1000,
	}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "quota") || !strings.Contains(err.Error(), "--engine") {
		t.Errorf("it says %v", err)
	}
	after := contents(t, dir)
	if !maps.Equal(before, after) {
		t.Errorf("there is %q, and was %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
}

// TestRestoreLeavesFilesToTheOwner of the data directory, whose server could not read them otherwise.
func TestRestoreLeavesFilesToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	const owner = 12345
	for _, engine := range []string{datastore.SQLite, config.EmbeddedEtcd} {
		for _, pki := range []map[string][]byte{nil, somePKI(t)} {
			dir := t.TempDir()
			if err := os.Chown(dir, owner, owner); err != nil {
				t.Fatal(err)
			}
			for range 2 { // over nothing, and over what is there
				_, err := Restore{DataDir: dir, From: bytes.NewReader(aSnapshot(t, pki)), Engine: engine, Now: time.Now(), Version: "test"}.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
			}
			files := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if s := info.Sys().(*syscall.Stat_t); err == nil && (s.Uid != owner || s.Gid != owner) {
					t.Errorf("%s, keys %v: %s is of user %d and group %d", engine, pki != nil, path, s.Uid, s.Gid)
				}
				files++
				return err
			})
			if err != nil || files < 6 {
				t.Errorf("%d files, %v", files, err)
			}
		}
	}
}

// An error must not leave what the owner of the data directory cannot replace.
func TestRestoreThatFailsLeavesFilesToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	const owner = 12345
	if err := errors.Join(os.Mkdir(formatFile(dir), 0o700), os.Chown(formatFile(dir), owner, owner), os.Chown(dir, owner, owner)); err != nil { // which cannot be written
		t.Fatal(err)
	}
	if _, err := (Restore{DataDir: dir, From: bytes.NewReader(aSnapshot(t, nil)), Now: time.Now()}).Run(t.Context()); err == nil {
		t.Fatal("it has not failed")
	}
	for _, path := range []string{restoringFile(dir), filepath.Join(dir, "lock"), filepath.Join(dir, "db"), markerFile(config.PKIDir(dir))} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != owner {
			t.Errorf("%s is of user %d", path, s.Uid)
		}
	}
}

// TestDataDirectoryHasNoOtherDatastores: the objects are in one place, and nothing is made before that is said.
func TestDataDirectoryHasNoOtherDatastores(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel() // a server that took them would run
	for _, endpoint := range []string{"", config.EmbeddedEtcd} {
		dir := filepath.Join(t.TempDir(), "data")
		var usage config.UsageError
		err := Run(ended, config.Server{DataDir: dir, DatastoreEndpoint: endpoint, KubeAPIServerArgs: []string{"etcd-prefix=/other"}}, nil)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), "etcd-prefix") {
			t.Errorf("%q: %v", endpoint, err)
		}
		if made, err := exists(dir); err != nil || made {
			t.Errorf("%q: the data directory is there (%v)", endpoint, err)
		}
	}
}
