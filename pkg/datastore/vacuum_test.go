package datastore

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// withFreePages is a database that has lost most of what it had, and the log of a killed server.
func withFreePages(t *testing.T) (dir string) {
	t.Helper()
	dir = left(t, killed(t, rand.New(rand.NewPCG(1, 0))))
	db := database(t, dir, "normal")
	for _, statement := range []string{"CREATE TABLE junk (x BLOB)", "INSERT INTO junk VALUES (zeroblob(2000000))", "DROP TABLE junk"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func owner(info os.FileInfo) [2]uint32 {
	s := info.Sys().(*syscall.Stat_t)
	return [2]uint32{s.Uid, s.Gid}
}

// TestCompactionMakesTheFileSmaller: with the same rows, owner and mode, and revisions that go on.
func TestCompactionMakesTheFileSmaller(t *testing.T) {
	dir := withFreePages(t)
	path := sqlitePath(dir)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12, 34); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+".compacting", []byte("of one that was interrupted"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := rowsIn(t, dir)
	c, err := CompactSQLite(t.Context(), dir, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Before < before.Size() || c.After != after.Size() || c.After > before.Size()-1_500_000 {
		t.Errorf("it says %+v, and the file had %d bytes and has %d", c, before.Size(), after.Size())
	}
	if after.Mode() != before.Mode() || owner(after) != owner(before) {
		t.Errorf("mode and owner were %v %v and are %v %v", before.Mode(), owner(before), after.Mode(), owner(after))
	}
	if got := rowsIn(t, dir); !slices.Equal(got, want) {
		t.Error("there are other rows")
	}
	if checked, err := CheckWholeSQLite(t.Context(), dir, func(int64, int64) {}); err != nil || len(checked.Problems) > 0 {
		t.Errorf("a check finds %q (%v)", checked.Problems, err)
	}
	for _, name := range []string{".compacting", "-wal"} {
		if _, err := os.Stat(path + name); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", name, err)
		}
	}
	_, client := openIn(t, dir, 0)
	answer, err := put(t.Context(), client, "/registry/x/new", "{}", 0)
	if err != nil || answer.Header.Revision <= want[len(want)-1].id {
		t.Errorf("after revision %d the next one is %v (%v)", want[len(want)-1].id, answer, err)
	}
}

// TestCompactionThatFailsChangesNothing: without room, or of a damaged database.
func TestCompactionThatFailsChangesNothing(t *testing.T) {
	small := smallDisk(t, "8m")
	if err := os.CopyFS(small, os.DirFS(withFreePages(t))); err != nil {
		t.Fatal(err)
	}
	free := fill(t, small)
	defer free()
	damaged := withFreePages(t)
	breakPageOf(t, damaged, "/registry/configmaps/default/")
	broken := killed(t, rand.New(rand.NewPCG(1, 0)))
	broken["state.db-wal"][len(broken["state.db-wal"])/2] ^= 1
	for name, c := range map[string]struct{ dir, says string }{
		"NoRoom":    {small, "free space there"},
		"Damaged":   {damaged, "reap snapshot restore"},
		"BrokenLog": {left(t, broken), "reap db check"},
		"Missing":   {t.TempDir(), "there is no database"},
	} {
		t.Run(name, func(t *testing.T) {
			path := sqlitePath(c.dir)
			before, _ := os.ReadFile(path) // none if it is missing
			_, err := CompactSQLite(t.Context(), c.dir, func(int64, int64) {})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the database is another")
			}
			if _, err := os.Stat(path + ".compacting"); !os.IsNotExist(err) {
				t.Errorf("a part of the new file is left (%v)", err)
			}
		})
	}
}

// TestStats counts what is there, apart from what was.
func TestStats(t *testing.T) {
	dir := left(t, killed(t, rand.New(rand.NewPCG(1, 0))))
	s, err := StatsSQLite(t.Context(), dir, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]row{}
	rows, history := rowsIn(t, dir), int64(0)
	for _, r := range rows {
		newest[r.name] = r
	}
	var keys, bytes, largest int64
	for _, r := range rows {
		switch now := newest[r.name]; {
		case bookkeeping(r.name):
		case now.id != r.id || r.deleted:
			history++
		default:
			keys++
			bytes += r.bytes
			largest = max(largest, r.bytes)
		}
	}
	if s.Keys != keys || s.Bytes != bytes || s.History != history || s.Revision != rows[len(rows)-1].id || s.Compacted != 0 {
		t.Errorf("it says %+v; there are %d keys with %d bytes, %d rows of history", s, keys, bytes, history)
	}
	if len(s.Largest) != largestKeys || s.Largest[0].Bytes != largest || !slices.IsSortedFunc(s.Largest, func(x, y KeySize) int { return int(y.Bytes - x.Bytes) }) {
		t.Errorf("the largest are %v", s.Largest)
	}
	if len(s.Files) < 2 || s.Pages == 0 || s.PageSize == 0 {
		t.Errorf("its files are %v, with %d pages of %d bytes", s.Files, s.Pages, s.PageSize)
	}
	if len(s.Resources) == 0 || s.Resources[0].Resource != "configmaps" {
		t.Errorf("its resources are %v", s.Resources)
	}
}

func TestResourceOfAKey(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/configmaps/default/a": "configmaps", "/registry/minions/n": "nodes", "/registry/services/specs/default/a": "services",
		"/registry/services/endpoints/default/a": "endpoints", "/registry/example.com/things/default/a": "things.example.com",
		"/registry/apiregistration.k8s.io/apiservices/v1.": "apiservices.apiregistration.k8s.io", "/registry/ranges/serviceips": "ranges",
		"/registry/controllers/default/a": "replicationcontrollers", "/reap/started": "other", "/registry/health": "health",
	} {
		if got := resourceOf(key); got != want {
			t.Errorf("%s is one of %s, not of %s", key, got, want)
		}
	}
}

// TestCompactionNamesAKeyThatWasWrittenTwice: it does not choose one of the two.
func TestCompactionNamesAKeyThatWasWrittenTwice(t *testing.T) {
	dir := withFreePages(t)
	before := rowsIn(t, dir)
	last := before[len(before)-1]
	db, err := sql.Open(sqliteDriver, sqlitePath(dir)+"?"+parameters("full"))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"DROP INDEX kine_name_prev_revision_uindex",
		fmt.Sprintf("INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value) SELECT name, created, deleted, create_revision, prev_revision, lease, value FROM kine WHERE id = %d", last.id),
		"CREATE INDEX kine_name_prev_revision_uindex ON kine (name, prev_revision)",
		"PRAGMA writable_schema = ON",
		"UPDATE sqlite_master SET sql = replace(sql, 'CREATE INDEX', 'CREATE UNIQUE INDEX') WHERE name = 'kine_name_prev_revision_uindex'",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CompactSQLite(t.Context(), dir, noProgress); err == nil || !strings.Contains(err.Error(), last.name) || !strings.Contains(err.Error(), "reap snapshot restore") {
		t.Errorf("a compaction says %v", err)
	}
	if after := rowsIn(t, dir); len(after) != len(before)+1 {
		t.Errorf("%d rows are left of %d", len(after), len(before)+1)
	}
}
