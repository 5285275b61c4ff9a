package datastore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/reap-dev/reap/tests/size"
)

// stoppedEtcd makes the store of an etcd that was stopped, with history, deletions, and a compaction on its way. It returns the files, by
// their paths in the data directory, and which keys there are.
func stoppedEtcd(t *testing.T, random *rand.Rand) (files map[string][]byte, there map[string]int64) {
	t.Helper()
	dir := t.TempDir()
	there = map[string]int64{}
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	c := s.Client()
	change(t, c, random, there, 400)
	now, err := c.Get(t.Context(), "none")
	if err == nil {
		_, err = c.Compact(t.Context(), now.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	change(t, c, random, there, 200)
	_ = c.Close() // it has no connection
	s.Stop()
	return filesOf(t, dir), there
}

func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[name] = raw
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// placed makes a data directory with these files.
func placed(t *testing.T, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var etcdDatabaseName = filepath.Join("etcd", "member", "snap", "db")

// checkedEtcd checks the store, which must not change.
func checkedEtcd(t *testing.T, dir string) Checked {
	t.Helper()
	before := filesOf(t, dir)
	c, err := CheckWholeEtcd(t.Context(), dir, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range filesOf(t, dir) {
		if !bytes.Equal(content, before[name]) {
			t.Errorf("looking has changed %s", name)
		}
	}
	return c
}

// TestDamageOfEtcdIsFound damages databases and logs at random places. A check finds it, or it has harmed nothing: a start succeeds, and every key
// has the revisions that it had. One thing cannot be found, as the database keeps no checksums of its pages: other bytes within a value that can
// still be decoded and has the same name.
func TestDamageOfEtcdIsFound(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	files, there := stoppedEtcd(t, random)
	if c := checkedEtcd(t, placed(t, files)); len(c.Problems) > 0 || c.Keys < int64(len(there)) || c.Rows <= c.Keys {
		t.Fatalf("without damage: %+v, and there are %d keys", c, len(there))
	}
	logs := maps.Clone(files)
	delete(logs, etcdDatabaseName)
	if c := checkedEtcd(t, placed(t, logs)); len(c.Problems) != 1 || c.Problems[0] != "the database is missing" {
		t.Errorf("without the database: %+v", c)
	}
	var names []string
	for name, content := range files {
		// What is behind the end of the log is zeros, of which damage is no damage.
		if used := len(bytes.TrimRight(content, "\x00")); strings.HasSuffix(name, ".wal") && used > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var found, harmless, times int
	// Of five damages one does no harm. It goes on until it has seen both outcomes; without one of them at the end it has failed.
	for least := size.Of(10, 10, 200); times < least || (found == 0 || harmless == 0) && times < 100; times++ {
		name := etcdDatabaseName
		if random.IntN(3) == 0 {
			name = names[random.IntN(len(names))]
		}
		damaged := maps.Clone(files)
		whole := files[name]
		used := min(len(bytes.TrimRight(whole, "\x00"))+512, len(whole))
		hurt, how := harm(whole[:used], random)
		if len(hurt) == used {
			hurt = append(hurt, whole[used:]...)
		}
		damaged[name] = hurt
		dir := placed(t, damaged)
		if c := checkedEtcd(t, dir); len(c.Problems) > 0 {
			found++
			continue
		}
		harmless++
		s, err := Start(t.Context(), etcdOptions(dir))
		if err != nil {
			t.Errorf("%s, %s: it is not found, and a start says %v", name, how, err)
			continue
		}
		c := s.Client()
		got := map[string]int64{}
		all, err := c.Get(t.Context(), "/registry/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all.Kvs {
			got[string(kv.Key)] = kv.ModRevision
		}
		_ = c.Close() // it has no connection
		s.Stop()
		if fmt.Sprint(got) != fmt.Sprint(there) {
			t.Errorf("%s, %s: it is not found, and there are other keys or revisions", name, how)
		}
	}
	if found == 0 || harmless == 0 {
		t.Error("the test has not tried what it should")
	}
	size.Power(t, fmt.Sprintf("seed=%d damaged=%d found=%d harmless=%d", seed, times, found, harmless))
}

// TestCheckFindsWrongRowsOfEtcd: rows as etcd never writes them, on pages that are whole.
func TestCheckFindsWrongRowsOfEtcd(t *testing.T) {
	files, _ := stoppedEtcd(t, rand.New(rand.NewPCG(1, 0)))
	// last returns the newest row that is what a case is about: one that was not compacted away in front of.
	last := func(t *testing.T, rows *bbolt.Bucket, want func(revision []byte, kv *mvccpb.KeyValue) bool) (revision []byte, kv *mvccpb.KeyValue) {
		t.Helper()
		c := rows.Cursor()
		for k, v := c.Last(); k != nil; k, v = c.Prev() {
			kv := &mvccpb.KeyValue{}
			if err := proto.Unmarshal(v, kv); err != nil {
				t.Fatal(err)
			}
			if want(k, kv) {
				return slices.Clone(k), kv
			}
		}
		t.Fatal("there is no such row")
		return nil, nil
	}
	version := func(is func(int64) bool) func([]byte, *mvccpb.KeyValue) bool {
		return func(k []byte, kv *mvccpb.KeyValue) bool { return !mvcc.IsTombstone(k) && is(kv.GetVersion()) }
	}
	isFirst, isLater := version(func(v int64) bool { return v == 1 }), version(func(v int64) bool { return v > 2 })
	// with changes the newest row of a kind.
	with := func(is func([]byte, *mvccpb.KeyValue) bool, do func(kv *mvccpb.KeyValue)) func(*testing.T, *bbolt.Bucket) error {
		return func(t *testing.T, rows *bbolt.Bucket) error {
			k, kv := last(t, rows, is)
			do(kv)
			raw, err := proto.Marshal(kv)
			if err != nil {
				return err
			}
			return rows.Put(k, raw)
		}
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, *bbolt.Bucket) error
		want string
	}{
		"no protobuf": {func(t *testing.T, rows *bbolt.Bucket) error {
			k, _ := last(t, rows, isFirst)
			return rows.Put(k, []byte{0xff})
		}, "cannot be decoded"},
		"no name":              {with(isFirst, func(kv *mvccpb.KeyValue) { kv.Key = nil }), "no name"},
		"of another revision":  {with(isFirst, func(kv *mvccpb.KeyValue) { kv.ModRevision++ }), "says that it is of revision"},
		"created later":        {with(isLater, func(kv *mvccpb.KeyValue) { kv.CreateRevision = kv.ModRevision + 1 }), "was created at revision"},
		"more versions":        {with(isLater, func(kv *mvccpb.KeyValue) { kv.Version += kv.ModRevision }), "was created at revision"},
		"new and old":          {with(isFirst, func(kv *mvccpb.KeyValue) { kv.CreateRevision-- }), "is new, and was created at"},
		"another version":      {with(isLater, func(kv *mvccpb.KeyValue) { kv.Version-- }), "does not fit"},
		"created elsewhere":    {with(isLater, func(kv *mvccpb.KeyValue) { kv.CreateRevision-- }), "does not fit"},
		"a value of something": {with(isFirst, func(kv *mvccpb.KeyValue) { kv.Value = []byte{0} }), "its value cannot be decoded"},
		"under another name":   {with(isFirst, func(kv *mvccpb.KeyValue) { kv.Key = append(kv.Key, 'x') }), "holds the "},
		"new over an old one": {with(isLater, func(kv *mvccpb.KeyValue) { kv.Version, kv.CreateRevision = 1, kv.ModRevision }),
			"is new, and was there since"},
		"a lease of no Event": {with(isFirst, func(kv *mvccpb.KeyValue) { kv.Lease = 1 }), "a key of its kind has none"},
		"a revision is missing": {func(t *testing.T, rows *bbolt.Bucket) error {
			newest, _ := last(t, rows, isLater)
			before, _ := rows.Cursor().Seek(newest)
			c := rows.Cursor()
			c.Seek(before)
			k, _ := c.Prev()
			return rows.Delete(slices.Clone(k))
		}, "are missing"},
		"a version without the one before": {func(t *testing.T, rows *bbolt.Bucket) error {
			_, kv := last(t, rows, isFirst)
			kv.Key, kv.Version = []byte("/elsewhere"), 2
			end, _ := rows.Cursor().Last()
			kv.ModRevision, kv.CreateRevision = mvcc.BytesToRev(end).Main+1, kv.GetModRevision()
			raw, err := proto.Marshal(kv)
			if err != nil {
				return err
			}
			return rows.Put(mvcc.RevToBytes(mvcc.Revision{Main: kv.GetModRevision()}, mvcc.NewRevBytes()), raw)
		}, "the one before is missing"},
		"a deletion of nothing": {func(t *testing.T, rows *bbolt.Bucket) error {
			k, kv := last(t, rows, func(k []byte, _ *mvccpb.KeyValue) bool { return mvcc.IsTombstone(k) })
			kv.Key = []byte("/elsewhere")
			raw, err := proto.Marshal(kv)
			if err != nil {
				return err
			}
			return rows.Put(k, raw)
		}, "which is not there"},
		"no revision": {func(_ *testing.T, rows *bbolt.Bucket) error { return rows.Put([]byte("x"), []byte("y")) }, "invalid revision"},
		"more than the log has": {func(_ *testing.T, rows *bbolt.Bucket) error {
			return rows.Tx().Bucket(schema.Meta.Name()).Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, 1<<40))
		}, "the log ends with entry"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := placed(t, files)
			db, err := bbolt.Open(etcdDatabase(dir), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Update(func(tx *bbolt.Tx) error { return c.do(t, tx.Bucket(schema.Key.Name())) }); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if got := checkedEtcd(t, dir); !strings.Contains(strings.Join(got.Problems, "; "), c.want) {
				t.Errorf("it finds %q, want %q", got.Problems, c.want)
			}
		})
	}
}

// TestEtcdWhoseLogHasLostItsEndIsNotStarted: etcd itself waits for ever then.
func TestEtcdWhoseLogHasLostItsEndIsNotStarted(t *testing.T) {
	t.Parallel() // it mostly waits
	files, _ := stoppedEtcd(t, rand.New(rand.NewPCG(1, 0)))
	dir := placed(t, files)
	db, err := bbolt.Open(etcdDatabase(dir), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(schema.Meta.Name()).Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, 1<<40))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, etcdOptions(dir))
	if err == nil {
		s.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "the log ends with entry") || !strings.Contains(err.Error(), "reap snapshot restore") {
		t.Errorf("it says %v", err)
	}
}

// TestRevisionOfADamagedEtcdIsAnErrorAtMost: it is read by the restore, which is the remedy for the damage.
func TestRevisionOfADamagedEtcdIsAnErrorAtMost(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	files, _ := stoppedEtcd(t, random)
	whole := files[etcdDatabaseName]
	used := whole[:len(bytes.TrimRight(whole, "\x00"))] // behind that are pages for later
	revision := func(t *testing.T, database []byte) (int64, error) {
		t.Helper()
		return EtcdRevision(t.Context(), placed(t, map[string][]byte{etcdDatabaseName: database}))
	}
	if got, err := revision(t, whole); err != nil || got < 600 {
		t.Fatalf("without damage: %d, %v", got, err)
	}
	if got, err := EtcdRevision(t.Context(), t.TempDir()); err != nil || got != 0 {
		t.Errorf("without a store: %d, %v", got, err)
	}
	failed := 0
	for range size.Of(50, 100, 500) {
		hurt, _ := harm(used, random)
		if _, err := revision(t, hurt); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no damage was an error")
	}
	// bbolt has the file's size from a page that is whole, and would read behind the end.
	for _, size := range []int{0, 100, 5 * 4096, len(used) / 2} {
		if got, err := revision(t, used[:size]); err == nil {
			t.Errorf("cut off at %d: revision %d and no error", size, got)
		}
	}
	// It would follow pages that lead to themselves without end.
	endless := slices.Clone(used)
	branches := 0
	pageSize := os.Getpagesize()
	for id := 2; (id+1)*pageSize <= len(endless); id++ {
		page := endless[id*pageSize:][:pageSize]
		if binary.NativeEndian.Uint64(page) != uint64(id) || page[8] != bboltBranch {
			continue
		}
		branches++
		for i := range int(binary.NativeEndian.Uint16(page[10:])) {
			binary.NativeEndian.PutUint64(page[bboltHead*(i+1)+8:], uint64(id))
		}
	}
	if got, err := revision(t, endless); err == nil || branches == 0 {
		t.Errorf("with %d pages that lead to themselves: revision %d and no error", branches, got)
	}
	dir := placed(t, files)
	db, err := bbolt.Open(etcdDatabase(dir), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(schema.Key.Name()).Put([]byte("x"), []byte("y")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := EtcdRevision(t.Context(), dir); err == nil {
		t.Errorf("with a key that is no revision: revision %d and no error", got)
	}
}

// TestLimitOfAStartGrowsWithTheFiles, since they are read, and its end is told from damage.
func TestLimitOfAStartGrowsWithTheFiles(t *testing.T) {
	dir := t.TempDir()
	left := func(dir string) time.Duration {
		ctx, cancel := withStartLimit(t.Context(), dir, time.Minute)
		defer cancel()
		end, _ := ctx.Deadline()
		return time.Until(end).Round(5 * time.Second)
	}
	if got := left(dir); got != time.Minute {
		t.Errorf("without files a start has %s", got)
	}
	for name, bytes := range map[string]int64{"snap/db": 1 << 30, "wal/0.wal": 600 << 20, "wal/1.wal": 400 << 20} {
		path := filepath.Join(etcdDir(dir), "member", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err == nil {
			err = errors.Join(f.Truncate(bytes), f.Close()) // it takes no room
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := left(dir), 260*time.Second; got != want { // 2,024 MiB
		t.Errorf("with 2 GiB a start has %s, want %s", got, want)
	}
}

// TestStartThatTakesTooLongIsNotCalledDamage: etcd waits without end for a database that another process has open.
func TestStartThatTakesTooLongIsNotCalledDamage(t *testing.T) {
	files, _ := stoppedEtcd(t, rand.New(rand.NewPCG(1, 0)))
	dir := placed(t, files)
	db, err := bbolt.Open(etcdDatabase(dir), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing was written
	o := etcdOptions(dir)
	o.StartTimeout = 500 * time.Millisecond
	s, err := Start(t.Context(), o)
	if err == nil {
		s.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "took longer than") || strings.Contains(err.Error(), "snapshot restore") {
		t.Errorf("it says %v", err)
	}
}
