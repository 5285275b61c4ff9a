package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
)

const convertedKeys = 200

// withStore is a data directory that a server has used.
func withStore(t *testing.T, engine string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	sink, err := datastore.NewSink(t.Context(), dir, engine)
	if err != nil {
		t.Fatal(err)
	}
	for i := range convertedKeys {
		key := fmt.Appendf(nil, "/registry/configmaps/default/%03d", i)
		if err := sink.Put(dump.Record{Key: key, Value: []byte(`{"kind":"ConfigMap"}`), CreateRevision: int64(i + 1), ModRevision: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Finish(500); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(datastore.FilesIn(dir, engine), "reserve"), []byte("room"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeMarker(config.PKIDir(dir), marker{Since: time.Unix(1, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func convert(t *testing.T, dir, to string) (Converted, error) {
	t.Helper()
	return Convert{DataDir: dir, To: to, Now: time.Now(), Progress: func(string, int64, int64) {}}.Run(t.Context())
}

// holds fails the test unless a folder is the data directory of an engine, at a revision, with all keys.
func holds(t *testing.T, dir, engine string, revision int64) {
	t.Helper()
	var head dump.Head
	err := ReadStore(t.Context(), dir, func(o *datastore.Opened) error {
		if o.Engine != engine {
			t.Errorf("%s holds %s, not %s", dir, o.Engine, engine)
		}
		return o.Read(t.Context(), func(h dump.Head) error { head = h; return nil }, func(dump.Record) error { return nil })
	})
	if err != nil || head != (dump.Head{Revision: revision, Keys: convertedKeys}) {
		t.Errorf("%s: %+v at revision %d (%v)", dir, head, revision, err)
	}
}

// paths are the names in a data directory, but for those of locks.
func paths(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name() != "lock" {
			names = append(names, f.Name())
		}
	}
	return names
}

// TestConversionThereAndBack: the old store is kept, whole and without its reserve, and revisions grow.
func TestConversionThereAndBack(t *testing.T) {
	dir := withStore(t, datastore.SQLite)
	revision := int64(500)
	for _, to := range []string{datastore.Etcd, datastore.SQLite, datastore.Etcd} {
		from, err := datastore.EngineIn(dir)
		if err != nil {
			t.Fatal(err)
		}
		done, err := convert(t, dir, to)
		if err != nil {
			t.Fatal(err)
		}
		if done.From != from || done.To != to || done.Keys != convertedKeys || done.OldRevision != revision || done.Revision < revision+beyond {
			t.Errorf("%+v from %s at %d", done, from, revision)
		}
		holds(t, dir, to, done.Revision)
		again := t.TempDir()
		if err := os.CopyFS(datastore.FilesIn(again, from), os.DirFS(done.Kept)); err != nil {
			t.Fatal(err)
		}
		holds(t, again, from, revision)
		if _, err := os.Stat(filepath.Join(done.Kept, "reserve")); !os.IsNotExist(err) {
			t.Errorf("the reserve of %s takes room (%v)", done.Kept, err)
		}
		m, _, err := readMarker(config.PKIDir(dir))
		if err != nil || m.Revision != done.Revision || !m.Since.Equal(time.Unix(1, 0)) {
			t.Errorf("the marker is %+v (%v)", m, err)
		}
		if _, err := convert(t, dir, to); err == nil || !strings.Contains(err.Error(), to+" already") {
			t.Errorf("to what it is: %v", err)
		}
		endpoint := map[string]string{datastore.Etcd: datastore.Etcd}[to]
		if _, err := (&server{cfg: config.Server{DataDir: dir, DatastoreEndpoint: endpoint}}).checkStore(t.Context()); err != nil {
			t.Errorf("the server refuses it: %v", err)
		}
		other := map[string]string{datastore.SQLite: datastore.Etcd}[to]
		_, err = (&server{cfg: config.Server{DataDir: dir, DatastoreEndpoint: other}}).checkStore(t.Context())
		if err == nil || !strings.Contains(err.Error(), "--datastore-endpoint") || !strings.Contains(err.Error(), "reap db convert --to") {
			t.Errorf("with the other endpoint: %v", err)
		}
		revision = done.Revision
	}
	if kept := paths(t, dir); len(slices.DeleteFunc(kept, func(n string) bool { return !strings.Contains(n, ".before-convert-") })) != 3 {
		t.Errorf("the data directory holds %q", kept)
	}
}

// TestInterruptedConversionEndsWithOneStore, wherever it was killed: with the old one until the exchange has begun, with
// the new one from then on.
func TestInterruptedConversionEndsWithOneStore(t *testing.T) {
	dir := withStore(t, datastore.SQLite)
	done, err := convert(t, dir, datastore.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	e := exchange{From: done.From, To: done.To, Kept: done.Kept, Revision: done.Revision, At: time.Now()}
	back := func(path string) { // to where it was built
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(datastore.FilesIn(dir, datastore.Etcd), path); err != nil {
			t.Fatal(err)
		}
	}
	old := func() {
		t.Helper()
		if err := os.Rename(done.Kept, datastore.FilesIn(dir, datastore.SQLite)); err != nil {
			t.Fatal(err)
		}
	}
	built := datastore.FilesIn(conversionDir(dir), datastore.Etcd)
	clean := paths(t, dir)
	for name, undo := range map[string]func(){
		"nothing was moved":      func() { back(built); old() },
		"the new store was":      func() { old() },
		"both were":              func() {},
		"the marker is from now": func() { e.Revision++ },
	} {
		t.Run(name, func(t *testing.T) {
			undo()
			if err := writeRecord(convertingFile(dir), e); err != nil {
				t.Fatal(err)
			}
			if err := ReadStore(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "reap db convert") {
				t.Errorf("a reader finds %v", err)
			}
			again, err := convert(t, dir, datastore.Etcd)
			if err != nil || again.From != done.From || again.Kept != done.Kept || again.Revision != e.Revision {
				t.Fatalf("the second run: %+v, %v", again, err)
			}
			holds(t, dir, datastore.Etcd, done.Revision)
			if got := paths(t, dir); !slices.Equal(got, clean) {
				t.Errorf("%q are left of %q", got, clean)
			}
			if m, _, err := readMarker(config.PKIDir(dir)); err != nil || m.Revision != e.Revision {
				t.Errorf("the marker is %+v (%v)", m, err)
			}
		})
	}
	// A start of the server goes on with it, too.
	back(built)
	old()
	if err := writeRecord(convertingFile(dir), e); err != nil {
		t.Fatal(err)
	}
	if err := settleBefore(dir); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, datastore.Etcd, done.Revision)
	// Before the exchange: what was built is of no use.
	if err := os.MkdirAll(filepath.Join(conversionDir(dir), "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := convert(t, dir, datastore.SQLite); err != nil {
		t.Errorf("over what one has left: %v", err)
	}
	if err := os.WriteFile(convertingFile(dir), []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := settleBefore(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestConversionThatIsRefusedChangesNothing says why in one line.
func TestConversionThatIsRefusedChangesNothing(t *testing.T) {
	cases := map[string]struct {
		dir  string
		says string
	}{
		"a running server":      {withStore(t, datastore.SQLite), "another reap server"},
		"no store":              {t.TempDir(), "there is no database"},
		"a newer build's":       {withStore(t, datastore.SQLite), "install that version"},
		"after half a restore":  {withStore(t, datastore.SQLite), "a restore into"},
		"something in its way":  {withStore(t, datastore.SQLite), "move it away"},
		"a database of others'": {withStore(t, datastore.SQLite), "cannot be used"},
	}
	running, err := openDataDir(cases["a running server"].dir)
	if err != nil {
		t.Fatal(err)
	}
	defer running.close()
	if err := writeRecord(formatFile(cases["a newer build's"].dir), layout{format + 1, "v9"}); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		restoringFile(cases["after half a restore"].dir):                                                   "",
		filepath.Join(cases["something in its way"].dir, "etcd", "note"):                                   "",
		filepath.Join(datastore.FilesIn(cases["a database of others'"].dir, datastore.SQLite), "state.db"): strings.Repeat("no database ", 1000),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range cases {
		before := contents(t, tc.dir)
		_, err := convert(t, tc.dir, datastore.Etcd)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after := contents(t, tc.dir); !maps.Equal(before, after) {
			t.Errorf("%s: the data directory has changed", name)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := convert(t, missing, datastore.Etcd); err == nil {
		t.Error("there is nothing to convert")
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("the directory was made (%v)", err)
	}
}

// contents are the files of a data directory, but for the lock, and what SQLite's readers make and empty.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "-wal") || d.Name() == "lock" {
			return err
		}
		raw, err := os.ReadFile(path)
		files[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
