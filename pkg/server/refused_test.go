package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// oneObject is a store with one value.
type oneObject struct {
	value    string
	revision int64
}

func (o oneObject) Read(_ context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	if err := begin(dump.Head{Revision: o.revision, Keys: 1}); err != nil {
		return err
	}
	return each(dump.Record{Key: []byte("/registry/configmaps/default/a"), Value: []byte(o.value), CreateRevision: 5, ModRevision: 5})
}

// TestSnapshotThatIsRefusedChangesNothing, and makes no data directory.
func TestSnapshotThatIsRefusedChangesNothing(t *testing.T) {
	make := func(store dump.Source, pki map[string][]byte) []byte {
		var out bytes.Buffer
		if _, err := snapshot.Write(t.Context(), &out, snapshot.Contents{Source: store, PKI: pki, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	whole := make(oneObject{`{}`, 9}, nil)
	with := func(name, content string) []byte {
		files := somePKI(t)
		if files[name] == nil {
			t.Fatalf("there is no %s", name)
		}
		if files[name] = []byte(content); content == "" {
			delete(files, name)
		}
		return make(oneObject{`{}`, 9}, files)
	}
	there := withStore(t, datastore.SQLite)
	before := contents(t, there)
	for name, tc := range map[string]struct {
		raw  []byte
		says string
	}{
		"no snapshot":                   {[]byte("a text"), "damaged"},
		"cut off":                       {whole[:len(whole)-3], "damaged"},
		"a value that is none":          {make(oneObject{`{"kind`, 9}, nil), "cannot be decoded"},
		"a value of another key":        {make(oneObject{`{"kind":"ConfigMap","metadata":{"name":"b"}}`, 9}, nil), "it holds the ConfigMap b"},
		"a revision below its keys":     {make(oneObject{`{}`, 4}, nil), "of revision 4"},
		"a revision that none comes to": {make(oneObject{`{}`, furthest + 1}, nil), "no store comes to"},
		"a garbage service-account key": {with("service-account.key", "garbage"), "service-account.key"},
		"no service-account key":        {with("service-account.key", ""), "service-account.key"},
		"a serving key of another":      {with("serving.key", string(somePKI(t)["serving.key"])), "serving.key does not fit"},
		"a CA's certificate of another": {with("server-ca.crt", string(somePKI(t)["server-ca.crt"])), "does not contain"},
		"a CA that is garbage":          {with("client-ca.pem", "garbage"), "client-ca.pem"},
	} {
		missing := filepath.Join(t.TempDir(), "missing")
		for _, dir := range []string{missing, there} {
			for _, in := range []io.Reader{bytes.NewReader(tc.raw), struct{ io.Reader }{bytes.NewReader(tc.raw)}} { // a file, and a pipe
				_, err := Restore{DataDir: dir, From: in, Now: time.Now()}.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if _, err := os.Stat(missing); !os.IsNotExist(err) {
			t.Errorf("%s: a data directory was made (%v)", name, err)
		}
	}
	if after := contents(t, there); !maps.Equal(before, after) {
		t.Error("the data directory has changed")
	}
	// The whole one comes through a pipe, too.
	if _, err := (Restore{DataDir: there, From: struct{ io.Reader }{bytes.NewReader(whole)}, Now: time.Now()}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStoreItselfIsLocked: the directory's lock may be removed.
func TestStoreItselfIsLocked(t *testing.T) {
	dir := withStore(t, datastore.SQLite)
	first, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(dir); err == nil || !strings.Contains(err.Error(), "state.db is locked") || !strings.Contains(err.Error(), "another reap server") {
		t.Errorf("a second server: %v", err)
	}
	if c, err := datastore.CheckWholeSQLite(t.Context(), dir, func(int64, int64) {}); err != nil || c.Keys != convertedKeys {
		t.Errorf("a check beside it: %+v, %v", c, err)
	}
	first.close()
	again, err := openDataDir(dir)
	if err != nil {
		t.Fatalf("after the first: %v", err)
	}
	again.close()
}

// TestDirectoryThatOthersWrite is taken, with the way to close it.
func TestDirectoryThatOthersWrite(t *testing.T) {
	for mode, warns := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o775: true, 0o777: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		log := test.NewGlobal()
		(&dataDir{path: dir}).warnIfOpen()
		said := ""
		for _, e := range log.AllEntries() {
			said += fmt.Sprint(e.Message, " ", e.Data["directory"])
		}
		if warned := strings.Contains(said, "'chmod go-w' on it "+dir); warned != warns {
			t.Errorf("%v: it says %q", mode, said)
		}
	}
}
