package datastore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// posixLocks returns how many fcntl locks there are on a file.
func posixLocks(t *testing.T, path string) (locks int) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, " POSIX ") && strings.Contains(line, inode) {
			locks++
		}
	}
	return locks
}

// TestSyncKeepsTheLocksOfTheDatabase: without them another program's SQLite would remove the log under the server.
func TestSyncKeepsTheLocksOfTheDatabase(t *testing.T) {
	dir := t.TempDir()
	_, c := openIn(t, dir, 0)
	if _, err := create(t.Context(), c, "/registry/key"); err != nil {
		t.Fatal(err)
	}
	before := posixLocks(t, sqlitePath(dir))
	if before == 0 {
		t.Fatal("SQLite holds no lock: the test tests nothing")
	}
	if err := SyncSQLite(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if after := posixLocks(t, sqlitePath(dir)); after != before {
		t.Errorf("%d locks are left of %d", after, before)
	}
}

func TestSyncMakesNoDatabase(t *testing.T) {
	dir := t.TempDir()
	if err := SyncSQLite(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(sqlitePath(dir))); !os.IsNotExist(err) {
		t.Error("it has made a database")
	}
}
