package datastore

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reap-dev/reap/tests/size"
)

// seedOf returns the seed of a random run and says what repeats it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	const variable = "REAP_TEST_SEED"
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", variable, seed)
	return seed
}

// object is a value as the API server stores it.
func object(t testing.TB, key string, random *rand.Rand) string {
	t.Helper()
	name := path.Base(key)
	notes := map[string]string{"note": strings.Repeat(key, 1+random.IntN(60))}
	if random.IntN(3) == 0 {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"default","name":%q,"annotations":{"note":%q}}}`, name, notes["note"])
	}
	raw, err := (&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: notes}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(envelope)
}

// change creates, changes and deletes keys.
func change(t *testing.T, c *clientv3.Client, random *rand.Rand, there map[string]int64, times int) {
	t.Helper()
	for range times {
		key := fmt.Sprintf("/registry/configmaps/default/%03d", random.IntN(200))
		var answer *clientv3.TxnResponse
		var err error
		if revision := there[key]; revision > 0 && random.IntN(3) == 0 {
			_, err = remove(t.Context(), c, key, revision)
			delete(there, key)
		} else if answer, err = put(t.Context(), c, key, object(t, key, random), revision); err == nil {
			there[key] = answer.Header.Revision
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// killed returns the files of a database whose server was killed: most of it is in the database, the rest in the log.
func killed(t *testing.T, random *rand.Rand) (files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	there := map[string]int64{}
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	change(t, c, random, there, 500)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.Stop() // which takes the log in
	_, c = openIn(t, dir, 0)
	change(t, c, random, there, 60)
	files = map[string][]byte{}
	for _, name := range []string{"state.db", "state.db-wal"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, "db", name)); err != nil || len(files[name]) == 0 {
			t.Fatalf("%s has %d bytes (%v)", name, len(files[name]), err)
		}
	}
	return files
}

// left makes a data directory with these files as its database.
func left(t *testing.T, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, "db", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// row is what a row says: which key, when and what happened to it; and what is in it.
type row struct {
	id       int64
	name     string
	deleted  bool
	bytes    int64 // of the value
	key      string
	contents string
}

// rowsIn returns all rows, by revision.
func rowsIn(t *testing.T, dir string) (all []row) {
	t.Helper()
	err := readSQLite(t.Context(), sqlitePath(dir), func(db *sql.DB) error {
		rows, err := db.QueryContext(t.Context(), "SELECT id, name, created, deleted, prev_revision, COALESCE(create_revision, 0), lease, value, old_value FROM kine ORDER BY id")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, created, deleted, prev, create, lease int64
			var name string
			var value, old []byte
			if err := rows.Scan(&id, &name, &created, &deleted, &prev, &create, &lease, &value, &old); err != nil {
				return err
			}
			all = append(all, row{
				id: id, name: name, deleted: deleted != 0, bytes: int64(len(value)), key: fmt.Sprint(name, created, deleted, prev),
				contents: fmt.Sprint(create, lease, hex.EncodeToString(value), hex.EncodeToString(old)),
			})
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// harm damages a file at a random place.
func harm(raw []byte, random *rand.Rand) (damaged []byte, how string) {
	damaged = slices.Clone(raw)
	at := random.IntN(len(raw))
	switch random.IntN(4) {
	case 0:
		bit := random.IntN(8)
		damaged[at] ^= 1 << bit
		return damaged, fmt.Sprintf("bit %d of byte %d flipped", bit, at)
	case 1:
		n := min(1+random.IntN(64), len(raw)-at)
		for i := range n {
			damaged[at+i] = byte(random.Uint32())
		}
		return damaged, fmt.Sprintf("%d bytes at %d overwritten", n, at)
	case 2:
		at &^= 511
		n := min(512, len(raw)-at)
		clear(damaged[at : at+n])
		return damaged, fmt.Sprintf("the sector at %d lost", at)
	default:
		return damaged[:at], fmt.Sprintf("cut off at %d of %d", at, len(raw))
	}
}

// TestDamageIsFound damages databases and logs at random places. A start or a check finds it, or it has harmed nothing:
// every key has the revisions that it had. Two things cannot be found, as SQLite keeps no checksums of its pages and
// takes a log that ends early for what a power cut has left: other bytes within a value that can still be decoded, and
// the loss of the last writes.
func TestDamageIsFound(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	files := killed(t, random)
	want := rowsIn(t, left(t, files))
	none := func(int64, int64) {}
	if c, err := CheckWholeSQLite(t.Context(), left(t, files), none); err != nil || len(c.Problems) > 0 {
		t.Fatalf("without damage it finds %q (%v)", c.Problems, err)
	}
	var atStart, byCheck, kept, harmless, values, shorter int
	times := 0
	for least := size.Of(30, 30, 300); times < least || (byCheck == 0 || atStart == 0) && times < 300; times++ {
		name := "state.db"
		if random.IntN(3) == 0 {
			name = "state.db-wal"
		}
		damaged := map[string][]byte{"state.db": files["state.db"], "state.db-wal": files["state.db-wal"]}
		var how string
		damaged[name], how = harm(files[name], random)
		dir := left(t, damaged)
		empty, err := CheckSQLite(t.Context(), dir)
		started := err == nil && !empty // the marker beside the keys keeps an empty one from being served
		if !started {
			atStart++
		}
		c, err := CheckWholeSQLite(t.Context(), dir, none)
		found := err != nil || len(c.Problems) > 0
		if after, err := os.ReadFile(filepath.Join(dir, "db", name)); err != nil || string(after) != string(damaged[name]) {
			t.Errorf("%s, %s: looking has changed it (%v)", name, how, err)
		}
		switch {
		case !started && !found && !empty:
			t.Errorf("%s, %s: a start refuses it, and a check finds nothing", name, how)
		case found:
			byCheck++
			if started {
				if err := KeepBrokenLog(dir); err != nil {
					t.Fatal(err)
				}
				copies, err := filepath.Glob(filepath.Join(dir, "db", "*.broken-*"))
				if err != nil {
					t.Fatal(err)
				}
				kept += len(copies)
			}
			continue
		case !started:
			continue
		}
		got := rowsIn(t, dir)
		if slices.Equal(got, want) {
			harmless++
			continue
		}
		if name == "state.db-wal" {
			// The state of an earlier revision.
			lost := len(want) - len(got)
			if lost < 0 || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("%s, %s: it is not found, and leaves no earlier state", name, how)
			} else if !strings.HasPrefix(how, "cut off") && lost > 4 {
				t.Errorf("%s, %s: %d writes are lost, and it is not found", name, how, lost)
			}
			shorter++
			continue
		}
		if !slices.EqualFunc(got, want, func(x, y row) bool { return x.id == y.id && x.key == y.key }) {
			t.Errorf("%s, %s: it is not found, and there are other keys or revisions", name, how)
		}
		values++
	}
	if byCheck == 0 || atStart == 0 {
		t.Error("the test has not tried what it should")
	}
	size.Power(t, fmt.Sprintf("seed=%d damaged=%d atStart=%d byCheck=%d harmless=%d valuesOnly=%d lastWritesOnly=%d", seed, times, atStart, byCheck, harmless, values, shorter))
}

// TestCheckFindsWrongRows: rows as kine never writes them, on pages that are whole.
func TestCheckFindsWrongRows(t *testing.T) {
	files := killed(t, rand.New(rand.NewPCG(1, 0)))
	const changed, created = "id = (SELECT max(id) FROM kine WHERE created = 0 AND deleted = 0)", "id = (SELECT max(id) FROM kine WHERE created = 1)"
	for statement, want := range map[string]string{
		"UPDATE kine SET created = NULL WHERE " + changed:           "a number is missing",
		"UPDATE kine SET deleted = NULL WHERE " + changed:           "a number is missing",
		"UPDATE kine SET prev_revision = NULL WHERE " + created:     "a number is missing",
		"UPDATE kine SET lease = NULL WHERE " + created:             "a number is missing",
		"UPDATE kine SET lease = 'x' WHERE " + created:              "converting",
		"UPDATE kine SET created = 2 WHERE " + changed:              "no creation, change or deletion",
		"UPDATE kine SET prev_revision = id + 1 WHERE " + changed:   "a later revision",
		"UPDATE kine SET create_revision = 0 WHERE " + changed:      "says when its key was created",
		"UPDATE kine SET create_revision = id - 1 WHERE " + changed: "according to revision",
		"UPDATE kine SET lease = 1 WHERE " + created:                "a lease of 1 seconds",
		"UPDATE kine SET lease = -1 WHERE " + created:               "a lease of -1 seconds",
		"UPDATE kine SET value = x'00' WHERE " + created:            "cannot be decoded",
		"UPDATE kine SET value = replace(CAST(value AS TEXT), 'default', 'defualt') WHERE id = (SELECT max(id) FROM kine WHERE CAST(value AS TEXT) LIKE '{%')": "holds the Thing defualt/",
	} {
		dir := left(t, files)
		db := database(t, dir, "normal")
		if result, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		} else if n, err := result.RowsAffected(); err != nil || n != 1 {
			t.Fatalf("%s: %d rows, %v", statement, n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := CheckWholeSQLite(t.Context(), dir, func(int64, int64) {})
		if err != nil || !strings.Contains(strings.Join(c.Problems, "; "), want) {
			t.Errorf("%s: it finds %q (%v), want %q", statement, c.Problems, err, want)
		}
	}
}

// TestBrokenLogIsKept: a log of which SQLite would leave out whole transactions is copied before it does, once.
func TestBrokenLogIsKept(t *testing.T) {
	files := killed(t, rand.New(rand.NewPCG(1, 0)))
	broken := func(dir string) (paths []string) {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, "db", "state.db-wal.broken-*"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	whole := left(t, files)
	if err := KeepBrokenLog(whole); err != nil || len(broken(whole)) > 0 {
		t.Errorf("of a log that is whole %q is kept (%v)", broken(whole), err)
	}
	log := files["state.db-wal"]
	log[len(log)/2] ^= 1
	dir := left(t, files)
	c, err := CheckWholeSQLite(t.Context(), dir, func(int64, int64) {})
	if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "whole transactions") {
		t.Errorf("a check finds %q (%v)", c.Problems, err)
	}
	for range 2 {
		if err := KeepBrokenLog(dir); err != nil {
			t.Fatal(err)
		}
		kept := broken(dir)
		if len(kept) != 1 {
			t.Fatalf("%q are kept", kept)
		}
		if raw, err := os.ReadFile(kept[0]); err != nil || string(raw) != string(log) {
			t.Errorf("the copy is another (%v)", err)
		}
	}
	_, client := openIn(t, dir, 0) // and a server can go on
	if _, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix()); err != nil {
		t.Error(err)
	}
}

// TestDamagedHeaderOfTheLogIsNotServed: SQLite alone would leave out the whole log and say nothing.
func TestDamagedHeaderOfTheLogIsNotServed(t *testing.T) {
	files := killed(t, rand.New(rand.NewPCG(1, 0)))
	want := len(rowsIn(t, left(t, files)))
	files["state.db-wal"][17] ^= 1
	dir := left(t, files)
	if got := len(rowsIn(t, dir)); got >= want {
		t.Fatalf("SQLite reads %d of %d rows", got, want)
	}
	if _, err := CheckSQLite(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "the header of its log is damaged") {
		t.Errorf("a start says %v", err)
	}
}
