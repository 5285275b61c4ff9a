package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// dataDirWithDatabase is a data directory whose database holds one ConfigMap.
func dataDirWithDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sink, err := datastore.NewSQLiteSink(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	record := dump.Record{
		Key: []byte("/registry/configmaps/default/a"), Value: []byte(`{"kind":"ConfigMap"}`), CreateRevision: 5, ModRevision: 7,
	}
	if err := sink.Put(record); err != nil {
		t.Fatal(err)
	}
	if err := sink.Finish(10); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDBStats(t *testing.T) {
	dir := dataDirWithDatabase(t)
	got := reap(t, nil, "db", "stats", "--data-dir", dir)
	for _, want := range []string{"state.db", "pages", "10, compacted up to 10", "RESOURCE", "configmaps", "/registry/configmaps/default/a"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is missing: %s%s", want, got.stdout, got.stderr)
		}
	}
	got = reap(t, []string{"REAP_DATA_DIR=" + dir}, "db", "stats", "-o", "json")
	var s datastore.Stats
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil || s.Keys != 1 || s.Revision != 10 || s.Resources[0].Resource != "configmaps" {
		t.Errorf("%+v (%v)", s, err)
	}
}

func TestDBCheck(t *testing.T) {
	dir := dataDirWithDatabase(t)
	before := contents(t, dir)
	got := reap(t, nil, "db", "check", "--data-dir", dir)
	if got.code != exitOK || !strings.Contains(got.stdout, "is in order: 2 rows, 1 keys") {
		t.Errorf("%d: %s%s", got.code, got.stdout, got.stderr)
	}
	path := filepath.Join(dir, "db", "state.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A reader makes SQLite's log and its shared memory if they are not there, and leaves the log empty.
	for _, changed := range changes(before, contents(t, dir)) {
		if changed != "db" && changed != "state.db-shm" && changed != "state.db-wal" {
			t.Errorf("it has changed %s", changed)
		}
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		t.Errorf("it has left a log of %d bytes", log.Size())
	}
	for name, damaged := range map[string][]byte{
		"value":     []byte(strings.Replace(string(raw), `{"kind"`, `{"ki"d"`, 1)),
		"truncated": raw[:len(raw)-5000],
		"other":     []byte(strings.Repeat("no database ", 1000)),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got := reap(t, nil, "db", "check", "--data-dir", dir)
		if got.code != exitRun || !strings.Contains(got.stderr, "is damaged") || !strings.Contains(got.stderr, "reap snapshot restore") || got.stdout == "" {
			t.Errorf("%s: %d: %s%s", name, got.code, got.stdout, got.stderr)
		}
		got = reap(t, nil, "db", "check", "--data-dir", dir, "-o", "json")
		var c datastore.Checked
		if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != exitRun || len(c.Problems) == 0 {
			t.Errorf("%s: %d: %+v (%v)", name, got.code, c, err)
		}
	}
}

func TestDBCompact(t *testing.T) {
	dir := dataDirWithDatabase(t)
	lock := flock.New(filepath.Join(dir, "lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	before := contents(t, dir)
	got := reap(t, nil, "db", "compact", "--data-dir", dir)
	if got.code != exitRun || !strings.Contains(got.stderr, "another reap server") || !strings.Contains(got.stderr, "stop it") {
		t.Errorf("beside a server: %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if changed := changes(before, contents(t, dir)); len(changed) > 0 {
		t.Errorf("beside a server it has changed %q", changed)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	got = reap(t, nil, "db", "compact", "--data-dir", dir)
	if got.code != exitOK || !strings.Contains(got.stdout, "before") {
		t.Errorf("%d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := reap(t, nil, "db", "check", "--data-dir", dir); got.code != exitOK {
		t.Errorf("afterwards: %s%s", got.stdout, got.stderr)
	}
}

// TestDBOfSomethingElse: what has no database of ours is named, and nothing is made there.
func TestDBOfSomethingElse(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	elsewhere := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(elsewhere, []byte("datastore-endpoint: postgres://reap:s3cret@db/reap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"stats", "check", "compact"} {
		for _, tc := range []struct {
			args []string
			says string
		}{
			{[]string{"--data-dir", missing}, "there is no database in " + missing},
			{[]string{"--config", elsewhere}, "a datastore elsewhere (postgres)"},
			{[]string{"-o", "xml"}, "--output has to be text or json"},
			{[]string{"more"}, `"more"`},
		} {
			got := reap(t, nil, append([]string{"db", command}, tc.args...)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, tc.says) || strings.Contains(got.stderr, "s3cret") {
				t.Errorf("%s %q: %d: %s", command, tc.args, got.code, got.stderr)
			}
		}
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("the directory is there (%v)", err)
	}
}
