package datastore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func mustBeEmpty(t *testing.T, dir string, want bool) {
	t.Helper()
	if empty, err := CheckSQLite(t.Context(), dir); err != nil || empty != want {
		t.Errorf("empty: %v, %v; want %v", empty, err, want)
	}
}

// TestEmptyStoreIsKnown: what kine and a start write is nothing of an API server.
func TestEmptyStoreIsKnown(t *testing.T) {
	dir := t.TempDir()
	mustBeEmpty(t, dir, true)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("looking has made %v (%v)", entries, err)
	}
	s, c := openIn(t, dir, 0)
	mustBeEmpty(t, dir, true)
	if _, err := create(t.Context(), c, "/registry/configmaps/default/a"); err != nil {
		t.Fatal(err)
	}
	mustBeEmpty(t, dir, false)
	head, _ := dumped(t, s)
	if got, err := SQLiteRevision(t.Context(), dir); err != nil || got != head.Revision {
		t.Errorf("the revision is %d (%v), want %d", got, err, head.Revision)
	}
}

// TestLookingLosesNoLog looks at what a killed process leaves: a database and a log that has not been taken in.
func TestLookingLosesNoLog(t *testing.T) {
	from := t.TempDir()
	_, c := openIn(t, from, 0)
	for _, key := range []string{"/registry/a/b", "/registry/a/c"} {
		if _, err := create(t.Context(), c, key); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	left := map[string][]byte{}
	for _, name := range []string{"state.db", "state.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(from, "db", name))
		if err != nil {
			t.Fatal(err)
		}
		left[name] = raw
		if err := os.WriteFile(filepath.Join(dir, "db", name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(left["state.db-wal"]) == 0 {
		t.Fatal("there is no log")
	}
	mustBeEmpty(t, dir, false)
	for name, want := range left {
		if got, err := os.ReadFile(filepath.Join(dir, "db", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is another now (%v)", name, err)
		}
	}
}
