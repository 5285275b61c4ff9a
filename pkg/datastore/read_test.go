package datastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// dumped reads all of a source.
func dumped(t *testing.T, from dump.Source) (head dump.Head, records map[string]dump.Record) {
	t.Helper()
	records = map[string]dump.Record{}
	last := ""
	err := from.Read(t.Context(), func(h dump.Head) error { head = h; return nil }, func(r dump.Record) error {
		if k := string(r.Key); k <= last {
			t.Errorf("%s comes after %s", k, last)
		}
		last = string(r.Key)
		records[last] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if head.Keys != int64(len(records)) {
		t.Errorf("%d keys were announced, %d came", head.Keys, len(records))
	}
	return head, records
}

// TestReadIsOfOneRevision reads while keys come and go: it has to show each write up to its revision and none after.
func TestReadIsOfOneRevision(t *testing.T) {
	s, c := openIn(t, t.TempDir(), 0)
	for i := range 3 * 100 { // several pages
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/there/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	type life struct{ created, removed int64 } // removed is 0 for what stays
	lives := map[string]life{}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("/registry/%c/%d-%d", 'a'+i%26, w, i)
				var l life
				var err error
				if l.created, err = create(t.Context(), c, key); err == nil && i%2 == 0 {
					l.removed, err = remove(t.Context(), c, key, l.created)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				lives[key] = l
				mu.Unlock()
			}
		})
	}
	type read struct {
		revision int64
		records  map[string]dump.Record
	}
	var reads []read
	for range 5 {
		head, records := dumped(t, s)
		reads = append(reads, read{head.Revision, records})
	}
	stop()
	writers.Wait()
	tried := 0
	for _, r := range reads {
		for key, l := range lives {
			_, found := r.records[key]
			if want := l.created <= r.revision && (l.removed == 0 || l.removed > r.revision); found != want {
				t.Errorf("%s was created at %d and removed at %d; that the read of %d shows it is %v", key, l.created, l.removed, r.revision, found)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Error("nothing was written meanwhile")
	}
}

// TestSinkKeepsRecordsAndStartsWatchesOver moves a store: keys keep values, revisions and times to live; the revision is
// beyond all that was given out, and everything below it counts as compacted.
func TestSinkKeepsRecordsAndStartsWatchesOver(t *testing.T) {
	from, c := openIn(t, t.TempDir(), 0)
	large := bytes.Repeat([]byte("large"), 200<<10/5)
	for i := range 40 {
		key := fmt.Sprintf("/registry/large/%04d", i)
		if _, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, string(large))).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2500 { // more than one transaction of the sink
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/small/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	const changed = "/registry/small/0007"
	before, err := c.Get(t.Context(), changed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(changed), "=", before.Kvs[0].ModRevision)).
		Then(clientv3.OpPut(changed, "changed")).Else(clientv3.OpGet(changed)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	const leased = "/registry/events/leased"
	_, err = c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(leased), "=", 0)).Then(clientv3.OpPut(leased, "event", clientv3.WithLease(3600))).Commit()
	if err != nil {
		t.Fatal(err)
	}
	head, records := dumped(t, from)
	if got := records[leased].TTL; got != time.Hour {
		t.Errorf("the leased key goes after %s", got)
	}

	dir := t.TempDir()
	sink, err := NewSQLiteSink(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	revision := head.Revision + 1_000_000
	err = from.Read(t.Context(), func(dump.Head) error { return nil }, sink.Put)
	if err = errors.Join(err, sink.Finish(revision), sink.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(sqlitePath(dir) + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes are in the log, which nobody has synced", info.Size())
	}

	to, c := openIn(t, dir, 0)
	headAfter, after := dumped(t, to)
	if headAfter.Revision <= revision {
		t.Errorf("the store is at %d, not beyond %d", headAfter.Revision, revision)
	}
	delete(records, canary) // which each start writes
	delete(after, canary)
	for key, want := range records {
		got, ok := after[key]
		if !ok || !bytes.Equal(got.Value, want.Value) || got.CreateRevision != want.CreateRevision || got.ModRevision != want.ModRevision || got.TTL != want.TTL {
			t.Errorf("%s: got revisions %d and %d and %s to live, want %d, %d and %s", key, got.CreateRevision, got.ModRevision, got.TTL, want.CreateRevision, want.ModRevision, want.TTL)
		}
	}
	if len(after) != len(records) {
		t.Errorf("%d keys, want %d", len(after), len(records))
	}
	for _, old := range []int64{1, head.Revision, revision - 1} {
		if _, err := c.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(old)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("a list at %d: %v", old, err)
		}
		w := <-c.Watch(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(old))
		if !errors.Is(w.Err(), rpctypes.ErrCompacted) {
			t.Errorf("a watch from %d: %v", old, w.Err())
		}
	}
	if got, err := create(t.Context(), c, "/registry/new"); err != nil || got <= headAfter.Revision {
		t.Errorf("the next write is at %d (%v)", got, err)
	}
}

func TestSinkTouchesNoDatabaseThatIsThere(t *testing.T) {
	dir := t.TempDir()
	openIn(t, dir, 0)
	if _, err := NewSQLiteSink(t.Context(), dir); err == nil {
		t.Error("it is built over another one")
	}
}
