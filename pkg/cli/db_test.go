package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/server"
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
	for _, command := range []string{"stats", "check", "compact", "export", "convert --to=etcd"} {
		for _, tc := range []struct {
			args []string
			says string
		}{
			{[]string{"--data-dir", missing}, "there is no database in " + missing},
			{[]string{"--config", elsewhere}, "a datastore elsewhere (postgres)"},
			{[]string{"-o", "xml"}, "--output has to be text or json"},
			{[]string{"one", "more"}, `"one"`},
		} {
			if command == "export" && len(tc.args) == 2 && tc.args[0] == "one" {
				tc.says = "takes one file"
			}
			got := reap(t, nil, slices.Concat([]string{"db"}, strings.Fields(command), tc.args)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, tc.says) || strings.Contains(got.stderr, "s3cret") {
				t.Errorf("%s %q: %d: %s", command, tc.args, got.code, got.stderr)
			}
		}
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("the directory is there (%v)", err)
	}
}

// TestDBExport: a file of its owner alone, which replaces no other unasked, or standard output.
func TestDBExport(t *testing.T) {
	dir, top := dataDirWithDatabase(t), t.TempDir()
	for _, format := range []string{"jsonl", "etcd"} {
		path := filepath.Join(top, format)
		args := []string{"db", "export", "--data-dir", dir, "--format", format}
		got := reap(t, nil, append(args, path)...)
		if got.code != exitOK || !strings.Contains(got.stdout, path+": 1 keys at revision 10, ") || got.stderr != "" {
			t.Errorf("%s: %d: %s%s", format, got.code, got.stdout, got.stderr)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", format, info, err)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := reap(t, nil, append(args, path)...); got.code != exitUsage || !strings.Contains(got.stderr, "--force") {
			t.Errorf("%s: over a file: %d: %s", format, got.code, got.stderr)
		}
		got = reap(t, nil, append(args, path, "--force", "-o", "json")...)
		var e exported
		if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || e.Path != path || e.Format != format || e.Engine != "sqlite" ||
			e.Keys != 1 || e.Revision != 10 || e.Bytes != info.Size() {
			t.Errorf("%s: %+v (%v)", format, e, err)
		}
		for _, args := range [][]string{args, append(args, "-")} {
			if got := reap(t, nil, args...); got.code != exitOK || len(got.stdout) != len(written) || got.stderr != "" {
				t.Errorf("%q: %d bytes, want %d: %s", args, len(got.stdout), len(written), got.stderr)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(top, "jsonl"))
	const line = `{"key":"/registry/configmaps/default/a","createRevision":5,"modRevision":7,"kind":"ConfigMap","value":"eyJraW5kIjoiQ29uZmlnTWFwIn0=","object":{"kind":"ConfigMap"}}` + "\n"
	if err != nil || string(raw) != line {
		t.Errorf("it is %s (%v)", raw, err)
	}
	if left, err := os.ReadDir(top); err != nil || len(left) != 2 {
		t.Errorf("%v are there (%v)", left, err)
	}
	for says, args := range map[string][]string{
		`unknown format "jsnl"`: {"--format", "jsnl"},
		"did you mean jsonl":    {"--format", "jsnl"},
		"is no file":            {top, "--force"},
		"--output is for":       {"-o", "json"},
	} {
		if got := reap(t, nil, append([]string{"db", "export", "--data-dir", dir}, args...)...); got.code != exitUsage || !strings.Contains(got.stderr, says) || got.stdout != "" {
			t.Errorf("%q: %d: %s", args, got.code, got.stderr)
		}
	}
	if got := reap(t, nil, "db", "export", "--data-dir", dir, filepath.Join(top, "missing", "file")); got.code != exitRun || !strings.Contains(got.stderr, "missing") {
		t.Errorf("into a folder that is missing: %d: %s", got.code, got.stderr)
	}
}

func TestDBConvert(t *testing.T) {
	dir := dataDirWithDatabase(t)
	for says, args := range map[string][]string{
		"--to says":      nil,
		`"etc"`:          {"--to", "etc"},
		"did you mean":   {"--to=etc"},
		"sqlite already": {"--to=sqlite"},
	} {
		if got := reap(t, nil, append([]string{"db", "convert", "--data-dir", dir}, args...)...); got.code == exitOK || !strings.Contains(got.stderr, says) {
			t.Errorf("%q: %d: %s", args, got.code, got.stderr)
		}
	}
	got := reap(t, nil, "db", "convert", "--data-dir", dir, "--to", "etcd")
	if got.code != exitOK || !strings.Contains(got.stdout, "converted 1 keys from sqlite to etcd") || !strings.Contains(got.stdout, "start the server with --datastore-endpoint=etcd") || got.stderr != "" {
		t.Errorf("%d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := reap(t, nil, "db", "stats", "--data-dir", dir); got.code != exitOK || !strings.Contains(got.stdout, "/registry/configmaps/default/a") || strings.Contains(got.stdout, "history") {
		t.Errorf("its statistics: %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := reap(t, nil, "db", "compact", "--data-dir", dir); got.code != exitUsage || !strings.Contains(got.stderr, "an etcd in "+dir) {
		t.Errorf("compact: %d: %s", got.code, got.stderr)
	}
	checksEtcd(t, dir)
	got = reap(t, nil, "db", "convert", "--data-dir", dir, "--to", "sqlite", "-o", "json")
	var c server.Converted
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || c.From != "etcd" || c.To != "sqlite" || c.Keys != 1 || c.Revision <= c.OldRevision || c.Kept == "" {
		t.Errorf("%+v (%v): %s", c, err, got.stderr)
	}
	if got := reap(t, nil, "db", "check", "--data-dir", dir); got.code != exitOK {
		t.Errorf("the database: %s%s", got.stdout, got.stderr)
	}
}

// checksEtcd checks the etcd of a data directory, and a damaged copy of it.
func checksEtcd(t *testing.T, dir string) {
	t.Helper()
	if got := reap(t, nil, "db", "check", "--data-dir", dir); got.code != exitOK || !strings.Contains(got.stdout, "is in order") || got.stderr != "" {
		t.Errorf("%d: %s%s", got.code, got.stdout, got.stderr)
	}
	damaged := t.TempDir()
	if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(damaged, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	if err := os.Truncate(logs[0], 100); err != nil {
		t.Fatal(err)
	}
	got := reap(t, nil, "db", "check", "--data-dir", damaged, "-o", "json")
	var c datastore.Checked
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || len(c.Problems) == 0 || got.code != exitRun || !strings.Contains(got.stderr, "reap snapshot restore") {
		t.Errorf("damaged: %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
