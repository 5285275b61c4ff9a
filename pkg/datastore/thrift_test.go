package datastore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// putUntilFull writes objects of so many bytes until the store is full, at most so many, and returns their revisions. As the API server
// does, it writes no more once the store says so.
func putUntilFull(t *testing.T, s *Store, c *clientv3.Client, kind string, bytes, most int) map[string]int64 {
	t.Helper()
	value, revisions := strings.Repeat("x", bytes), map[string]int64{}
	for i := range most {
		if code, _ := s.Refusal(); code != 0 {
			break
		}
		key := fmt.Sprintf("/registry/%s/%06d", kind, i)
		answer, err := put(t.Context(), c, key, value, 0)
		if err != nil {
			break
		}
		revisions[key] = answer.Header.Revision
	}
	return revisions
}

// TestEverythingInAFullStoreCanBeDeleted: deletions of objects of any size end, though each is marked and loses a finalizer before, and
// watches are told of each with the value before. The same process takes writes again when the disk has room.
func TestEverythingInAFullStoreCanBeDeleted(t *testing.T) {
	const reserve = 16 << 20
	for name, c := range map[string]struct {
		bytes, most int
		filled      bool // by something else
	}{
		"1 kB":   {1 << 10, 600, true},
		"100 kB": {100 << 10, 60, true},
		"1 MB":   {1 << 20, 1 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "34m")
			s, client := openIn(t, dir, reserve)
			eventually(t, func() error { _, err := os.Stat(filepath.Join(dir, "db", "reserve")); return err })
			told := deletionsOf(t, client)
			revisions := putUntilFull(t, s, client, "x", c.bytes, c.most)
			free := func() {}
			if c.filled {
				free = fill(t, dir)
				putUntilFull(t, s, client, "y", c.bytes, 1<<20)
			}
			if code, _ := s.Refusal(); code != 507 {
				t.Fatalf("after %d objects the store says %d", len(revisions), code)
			}
			var last int64
			for key, revision := range revisions {
				for _, step := range []string{"marked", "released"} {
					answer, err := put(t.Context(), client, key, step+strings.Repeat("x", c.bytes-len(step)), revision)
					if err != nil || !answer.Succeeded {
						t.Fatalf("%s cannot be %s: %v, with %.2f of the reserve left", key, step, err, s.Left())
					}
					revision = answer.Header.Revision
				}
				revision, err := remove(t.Context(), client, key, revision)
				if err != nil {
					t.Fatalf("deleting %s: %v, with %.2f of the reserve left", key, err, s.Left())
				}
				last = max(last, revision)
			}
			got, err := client.Get(t.Context(), "/registry/x/", clientv3.WithPrefix())
			if err != nil || len(got.Kvs) > 0 || got.Header.Revision < last {
				t.Errorf("%d keys are left, at revision %d; the last deletion was at %d (%v)", len(got.Kvs), got.Header.Revision, last, err)
			}
			if c.filled {
				free()
				eventually(t, func() error {
					_, err := put(t.Context(), client, "/registry/x/late", strings.Repeat("x", c.bytes), 0)
					return err
				})
			}
			for range revisions {
				select {
				case before := <-told:
					if !strings.HasPrefix(before, "released") {
						t.Errorf("a deletion is told with the value before %q", before[:min(len(before), 10)])
					}
				case <-time.After(patience):
					t.Fatalf("the watch has not told of all deletions within %s", patience)
				}
			}
		})
	}
}

// deletionsOf watches, and sends of each deletion the value before.
func deletionsOf(t *testing.T, c *clientv3.Client) <-chan string {
	before := make(chan string, 1<<14)
	watch := c.Watch(t.Context(), "/registry/x/", clientv3.WithPrefix(), clientv3.WithPrevKV())
	go func() {
		for r := range watch {
			if r.Err() != nil {
				return // the test misses what is not told
			}
			for _, e := range r.Events {
				switch {
				case e.Type != clientv3.EventTypeDelete:
				case e.PrevKv == nil:
					before <- ""
				default:
					before <- string(e.PrevKv.Value)
				}
			}
		}
	}()
	return before
}

// TestWritesOnAFullDiskUseNoRoomUp: an object that changes again and again, in the room of the reserve, takes no more of it.
func TestWritesOnAFullDiskUseNoRoomUp(t *testing.T) {
	const reserve, size = 8 << 20, 256 << 10
	dir := smallDisk(t, "24m")
	s, c := openIn(t, dir, reserve)
	eventually(t, func() error { _, err := os.Stat(filepath.Join(dir, "db", "reserve")); return err })
	revisions := putUntilFull(t, s, c, "x", size, 1<<20)
	const key = "/registry/x/000000"
	revision := revisions[key]
	for i := range 5 * reserve / size {
		answer, err := put(t.Context(), c, key, fmt.Sprintf("%06d", i)+strings.Repeat("x", size-6), revision)
		if err != nil || !answer.Succeeded {
			t.Fatalf("write %d: %v, with %.2f of the reserve left", i, err, s.Left())
		}
		revision = answer.Header.Revision
	}
	if left := s.Left(); left < 0.5 {
		t.Errorf("%.2f of the reserve is left", left)
	}
}

// TestDoubtfulStoreKeepsItsHistoryOnAFullDisk, and deletions still go through.
func TestDoubtfulStoreKeepsItsHistoryOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
	s, err := Start(t.Context(), Options{
		Dir: dir, Synchronous: "normal", Reserve: 4 << 20, VerifyFirst: true, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	eventually(t, func() error { _, err := os.Stat(filepath.Join(dir, "db", "reserve")); return err })
	revisions := putUntilFull(t, s, c, "x", 1<<20, 1<<20)
	first := revisions["/registry/x/000000"]
	for key, revision := range revisions {
		if _, err := remove(t.Context(), c, key, revision); err != nil {
			t.Fatalf("deleting %s: %v", key, err)
		}
	}
	if got, err := c.Get(t.Context(), "/registry/x/000000", clientv3.WithRev(first)); err != nil || len(got.Kvs) != 1 {
		t.Errorf("the history is gone before a check has found the store whole (%v)", err)
	}
}

// TestLongLogCountsAsFull: a log that reads keep from being taken in is no longer than what the disk can still take in.
func TestLongLogCountsAsFull(t *testing.T) {
	const reserve = 8 << 20
	dir := smallDisk(t, "40m")
	s, c := openIn(t, dir, reserve)
	eventually(t, func() error { _, err := os.Stat(filepath.Join(dir, "db", "reserve")); return err })
	reader, err := database(t, dir, "normal").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := reader.ExecContext(t.Context(), "BEGIN DEFERRED"); err != nil {
		t.Fatal(err)
	}
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM kine").Scan(&n); err != nil {
		t.Fatal(err)
	}
	putUntilFull(t, s, c, "x", 256<<10, 1<<20)
	log, err := os.Stat(filepath.Join(dir, "db", "state.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	free, _ := freeOn(dir)
	if log.Size() > free+reserve/2 {
		t.Errorf("the log has %d bytes, and the disk %d, the reserve given up", log.Size(), free)
	}
	_, err = reader.ExecContext(t.Context(), "ROLLBACK")
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
}

// TestRoomWithinTheDatabaseCounts: a database that was emptied never gives room back to the disk. If it has that of a whole reserve,
// writes go on, with the reserve that the disk has room for.
func TestRoomWithinTheDatabaseCounts(t *testing.T) {
	const reserve = 8 << 20
	dir := smallDisk(t, "6m")
	d := newDisk(dir, reserve, prometheus.NewRegistry())
	for _, inside := range []int64{0, reserve} {
		d.inside = func() int64 { return inside }
		if err := d.probe(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("with %d bytes within: %v", inside, err)
		}
	}
	d.inside = func() int64 { return reserve + room }
	if err := d.probe(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(d.reserve.path); err != nil || info.Size() < 2<<20 || info.Size() > 3<<20 {
		t.Errorf("the reserve is %v (%v), want half of what is free", info, err)
	}
}

// TestGroupsOfLargeRowsAreSmall: SQLite's log grows by each transaction.
func TestGroupsOfLargeRowsAreSmall(t *testing.T) {
	g := &grouping{hold: make(chan struct{})}
	close(g.hold)
	group := newGroup(g)
	group.rows = make(chan *insertion, maxGroup)
	const rows = 8
	for i := range rows {
		group.rows <- &insertion{key: fmt.Sprint(i), value: make([]byte, maxGroupBytes/2), written: make(chan struct{})}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { group.run(ctx); return nil })
	eventually(t, func() error {
		if len(group.rows) > 0 {
			return syscall.EAGAIN
		}
		return nil
	})
	cancel()
	_ = running.Wait()
	if len(g.table) != rows || g.begun != rows/2 {
		t.Errorf("%d rows of half the size of a group were written in %d transactions", len(g.table), g.begun)
	}
}
