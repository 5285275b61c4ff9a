package datastore

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// createLeased creates a key that goes after some seconds.
func createLeased(t *testing.T, c *clientv3.Client, key string, seconds int64) {
	t.Helper()
	lease, err := c.Grant(t.Context(), seconds)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "event", clientv3.WithLease(lease.ID))).Commit()
	if err != nil || !answer.Succeeded {
		t.Fatalf("creating %s: %v, %v", key, answer, err)
	}
}

// mustEqual fails the test unless two dumps are the same. The version is not compared: kine has none.
func mustEqual(t *testing.T, what string, gotHead, wantHead dump.Head, got, want map[string]dump.Record) {
	t.Helper()
	if gotHead != wantHead {
		t.Errorf("%s: it begins with %+v, want %+v", what, gotHead, wantHead)
	}
	for key, w := range want {
		g, there := got[key]
		if !there || !bytes.Equal(g.Value, w.Value) || g.CreateRevision != w.CreateRevision || g.ModRevision != w.ModRevision ||
			(g.TTL == 0) != (w.TTL == 0) || (g.TTL-w.TTL).Abs() > time.Minute {
			t.Errorf("%s: %s is %+v, want %+v", what, key, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d keys, want %d", what, len(got), len(want))
	}
}

// TestSQLiteFileSaysWhatItsServerSays: the file holds what kine answers, also on its socket.
func TestSQLiteFileSaysWhatItsServerSays(t *testing.T) {
	dir := t.TempDir()
	s, c := openIn(t, dir, 0)
	change(t, c, rand.New(rand.NewPCG(1, 0)), map[string]int64{}, 300)
	createLeased(t, c, "/registry/events/leased", 3600)
	recreated := "/registry/configmaps/default/recreated"
	for range 2 {
		revision, err := create(t.Context(), c, recreated)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remove(t.Context(), c, recreated, revision); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create(t.Context(), c, recreated); err != nil {
		t.Fatal(err)
	}
	wantHead, want := dumped(t, s)
	for what, served := range map[string]bool{"the file": false, "the socket": true} {
		o, err := Open(t.Context(), dir, served)
		if err != nil {
			t.Fatal(err)
		}
		head, got := dumped(t, o)
		o.Close()
		mustEqual(t, what, head, wantHead, got, want)
		if got["/registry/events/leased"].TTL != time.Hour || o.Engine != SQLite {
			t.Errorf("%s: %+v of %s", what, got["/registry/events/leased"], o.Engine)
		}
	}
}

// TestEtcdIsReadBesideItsServerAndWithout: on its socket, and alone after the server has ended, with the same result.
func TestEtcdIsReadBesideItsServerAndWithout(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			s.Stop()
		}
	})
	c := s.Client()
	for i := range 300 {
		if _, err := put(t.Context(), c, fmt.Sprintf("/registry/x/%03d", i), strings.Repeat("v", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	createLeased(t, c, "/registry/events/leased", 3600)
	wantHead, want := dumped(t, s)
	read := func(what string, served bool) {
		t.Helper()
		o, err := Open(t.Context(), dir, served)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		head, got := dumped(t, o)
		mustEqual(t, what, head, wantHead, got, want)
		stats, err := StatsEtcd(t.Context(), o, func(int64, int64) {})
		if err != nil {
			t.Fatal(err)
		}
		value := int64(0)
		for _, r := range want {
			value += int64(len(r.Value))
		}
		if stats.Keys != head.Keys || stats.Revision != head.Revision || stats.Bytes != value || stats.Compacted != 0 ||
			stats.Pages == 0 || len(stats.Files) < 2 || len(stats.Largest) != largestKeys || stats.Largest[0].Key != "/registry/x/299" {
			t.Errorf("%s: the statistics are %+v", what, stats)
		}
	}
	read("beside its server", true)
	_ = c.Close() // it has no connection
	s.Stop()
	stopped = true
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	read("alone", false)
	read("alone once more", false)
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(files) {
		t.Errorf("the data directory held %v and holds %v (%v)", files, after, err)
	}
	if _, err := Open(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a server that is not there: %v", err)
	}
}

// TestCompactedRevisionOfAnEtcdIsTold, which its API does not say outright.
func TestCompactedRevisionOfAnEtcdIsTold(t *testing.T) {
	dir := t.TempDir()
	sink, err := NewEtcdSink(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Put(dump.Record{Key: []byte("/registry/a/b"), Value: []byte("{}"), CreateRevision: 3, ModRevision: 4}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Finish(70); err != nil {
		t.Fatal(err)
	}
	o, err := Open(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if s, err := StatsEtcd(t.Context(), o, func(int64, int64) {}); err != nil || s.Revision != 70 || s.Compacted != 70 || s.Keys != 1 {
		t.Errorf("%+v (%v)", s, err)
	}
}

func TestDataDirectoryWithoutOneStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "there is no database in "+dir) {
		t.Errorf("without a store: %v", err)
	}
	for _, path := range []string{sqlitePath(dir), filepath.Join(etcdDir(dir), "member", "wal", "x")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "both engines") {
		t.Errorf("with two: %v", err)
	}
}

// conversion converts the store of a data directory into a folder beside it.
func conversion(t *testing.T, dir, to string, progress func(step string, done, all int64)) (Built, string, error) {
	t.Helper()
	work := filepath.Join(dir, ".work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := Conversion{
		Dir: dir, Work: work, To: to, Progress: progress, Revision: func(old int64) int64 { return old + 1000 },
	}.Run(t.Context())
	return b, work, err
}

// filled is a data directory of an engine with many keys, whose server has ended.
func filled(t *testing.T, dir, engine string, keys int) map[string]dump.Record {
	t.Helper()
	sink, err := NewSink(t.Context(), dir, engine)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]dump.Record{}
	for i := range keys {
		r := dump.Record{Key: fmt.Appendf(nil, "/registry/configmaps/default/%06d", i), Value: fmt.Appendf(nil, `{"kind":"ConfigMap","data":"%0*d"}`, i%3000, i),
			CreateRevision: int64(i + 1), ModRevision: int64(i + 1)}
		if i%10 == 0 {
			r.TTL = time.Hour
		}
		records[string(r.Key)] = r
		if err := sink.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Finish(int64(keys + 10)); err != nil {
		t.Fatal(err)
	}
	return records
}

// TestConversionKeepsEveryKey, and reports its two steps.
func TestConversionKeepsEveryKey(t *testing.T) {
	const keys = 2500
	for from, to := range map[string]string{SQLite: Etcd, Etcd: SQLite} {
		dir := t.TempDir()
		want := filled(t, dir, from, keys)
		seen := map[string]int64{}
		b, work, err := conversion(t, dir, to, func(step string, done, all int64) {
			if all != keys {
				t.Errorf("%s: %d of %d keys", step, done, all)
			}
			seen[step] = done
		})
		if err != nil {
			t.Fatal(err)
		}
		if b != (Built{Keys: keys, OldRevision: keys + 10, Revision: keys + 1010}) || !maps.Equal(seen, map[string]int64{"copying": keys, "verifying": keys}) {
			t.Errorf("from %s it says %+v and %v", from, b, seen)
		}
		for what, at := range map[string]string{"the old store": dir, "the new store": work} {
			o, err := Open(t.Context(), at, false)
			if err != nil {
				t.Fatal(err)
			}
			head, got := dumped(t, o)
			o.Close()
			revision := map[string]int64{dir: b.OldRevision, work: b.Revision}[at]
			mustEqual(t, fmt.Sprintf("%s from %s", what, from), head, dump.Head{Revision: revision, Keys: keys}, got, want)
		}
	}
}

// TestConversionOnAFullDiskIsAnError: before it begins if the room is known to be too little, and if something else
// takes it meanwhile.
func TestConversionOnAFullDiskIsAnError(t *testing.T) {
	for from, to := range map[string]string{SQLite: Etcd, Etcd: SQLite} {
		dir := smallDisk(t, "200m")
		want := filled(t, dir, from, 10_000)
		free := func() {}
		_, work, err := conversion(t, dir, to, func(step string, done, _ int64) {
			if step == "copying" && done == 1000 {
				free = fill(t, dir)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "the disk of "+dir+" is full") {
			t.Errorf("from %s: %v", from, err)
		}
		if err := os.RemoveAll(work); err != nil {
			t.Fatal(err)
		}
		_, work, err = conversion(t, dir, to, func(string, int64, int64) { t.Error("it has begun") })
		if err == nil || !strings.Contains(err.Error(), "free space there") {
			t.Errorf("from %s, on a full disk: %v", from, err)
		}
		if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
			t.Errorf("from %s: %v is left (%v)", from, left, err)
		}
		free()
		o, err := Open(t.Context(), dir, false)
		if err != nil {
			t.Fatal(err)
		}
		head, got := dumped(t, o)
		o.Close()
		mustEqual(t, "the old store, "+from, head, dump.Head{Revision: 10_010, Keys: 10_000}, got, want)
	}
}

func TestDamagedDatabaseIsNotConverted(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, SQLite, 500)
	breakPageOf(t, dir, "/registry/configmaps/default/")
	before, err := os.ReadFile(sqlitePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conversion(t, dir, Etcd, func(string, int64, int64) {}); err == nil || !strings.Contains(err.Error(), "reap snapshot restore") {
		t.Errorf("it says %v", err)
	}
	if after, err := os.ReadFile(sqlitePath(dir)); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the database is another (%v)", err)
	}
}
