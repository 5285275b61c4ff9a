package datastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	kinemetrics "github.com/k3s-io/kine/pkg/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// smallDisk mounts a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a disk to fill")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		// kine's goroutines may still read from it for a moment.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting the small disk: %v", err)
		}
	})
	return dir
}

// fill takes the room that is left on a disk, and returns what gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func put(ctx context.Context, c *clientv3.Client, key, value string, revision int64) (*clientv3.TxnResponse, error) {
	txn := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, value))
	if revision > 0 {
		txn = txn.Else(clientv3.OpGet(key))
	}
	return txn.Commit()
}

// keysOf returns the revision of each key that a list shows.
func keysOf(t *testing.T, c *clientv3.Client) map[string]int64 {
	t.Helper()
	got, err := c.Get(t.Context(), "/registry/x/", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("reading from a full disk: %v", err)
	}
	keys := map[string]int64{}
	for _, kv := range got.Kvs {
		keys[string(kv.Key)] = kv.ModRevision
	}
	return keys
}

// patience is how long a condition may take. t.Context() ends only with the test.
const patience = 2 * time.Minute

// eventually tries until it works.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	end := time.After(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-end:
			t.Fatalf("it has not worked within %s: %v", patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestFullDisk: what is acknowledged is there, what is not says which disk is full; reads, watches and deletions go
// on, and so do writes as soon as there is room.
func TestFullDisk(t *testing.T) {
	const reserve = 2 << 20
	dir := smallDisk(t, "16m")
	s, c := openIn(t, dir, reserve)
	reserved := filepath.Join(dir, "db", "reserve")
	eventually(t, func() error { _, err := os.Stat(reserved); return err })
	watched := followKeys(t, c)
	value := strings.Repeat("x", 3000)
	acknowledged := map[string]int64{}
	write := func(i int) error {
		key := fmt.Sprintf("/registry/x/%06d", i)
		answer, err := put(t.Context(), c, key, value, 0)
		if err == nil && !answer.Succeeded {
			err = errors.New("it exists already")
		}
		if err == nil {
			acknowledged[key] = answer.Header.Revision
		}
		return err
	}
	for i := range 200 {
		if err := write(i); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		free := fill(t, dir)
		next := (round + 1) * 100_000
		for code := 0; code == 0; code, _ = s.Refusal() {
			_ = write(next) // the first that is not taken may find the disk full itself
			next++
		}
		if code, _ := s.Refusal(); code != http.StatusInsufficientStorage {
			t.Errorf("the store says %d", code)
		}
		if _, err := os.Stat(reserved); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the reserve is still there: %v", err)
		}
		// The room of the reserve is for deletions. What tries to write takes it here, until that is used up, too.
		keys := keysOf(t, c)
		some := fmt.Sprintf("/registry/x/%06d", round)
		if answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(some), "=", keys[some])).
			Then(clientv3.OpDelete(some)).Else(clientv3.OpGet(some)).Commit(); err != nil || !answer.Succeeded {
			t.Errorf("deleting with the reserve: %v (%v)", answer, err)
		}
		delete(acknowledged, some)
		failures := 0
		var refused error
		for ; failures < 20; next++ {
			if err := write(next); err != nil {
				refused = err
				failures++
			}
		}
		if code := status.Code(refused); code != codes.ResourceExhausted {
			t.Errorf("a write to a full disk is answered with %s: %v", code, refused)
		}
		if code, text := Explain(refused.Error()); code != http.StatusInsufficientStorage || !strings.Contains(text, filepath.Join(dir, "db")) {
			t.Errorf("the answer is %d %q, from %v", code, text, refused)
		}
		for key, revision := range keysOf(t, c) {
			answer, err := put(t.Context(), c, key, "other", revision)
			if err == nil && !answer.Succeeded {
				t.Errorf("an update that could not be stored is answered as a conflict")
			}
			if err == nil {
				acknowledged[key] = answer.Header.Revision
				continue
			}
			if _, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
				Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit(); err == nil {
				delete(acknowledged, key) // that has worked; the next time it may not
			}
			break
		}
		same(t, keysOf(t, c), acknowledged)

		free()
		eventually(t, func() error {
			if code, text := s.Refusal(); code != 0 {
				return errors.New(text)
			}
			return nil
		})
		if err := write(next); err != nil {
			t.Errorf("writing after there is room again: %v", err)
		}
		if info, err := os.Stat(reserved); err != nil || info.Size() != reserve {
			t.Errorf("the reserve is not whole again: %v", err)
		}
	}
	stored := keysOf(t, c)
	same(t, stored, acknowledged)
	// The watch has seen all of it.
	eventually(t, func() error {
		if shown, err := watched(); err != nil || !sameKeys(shown, stored) {
			return fmt.Errorf("the watch has shown %d of %d keys (%w)", len(shown), len(stored), err)
		}
		return nil
	})
}

// followKeys watches, and returns what has been shown so far, or why the watch has ended.
func followKeys(t *testing.T, c *clientv3.Client) func() (map[string]int64, error) {
	var mu sync.Mutex
	shown, ended := map[string]int64{}, error(nil)
	watch := c.Watch(t.Context(), "/registry/x/", clientv3.WithPrefix())
	go func() {
		for r := range watch {
			mu.Lock()
			ended = r.Err()
			for _, e := range r.Events {
				if e.Type == clientv3.EventTypeDelete {
					delete(shown, string(e.Kv.Key))
				} else {
					shown[string(e.Kv.Key)] = e.Kv.ModRevision
				}
			}
			mu.Unlock()
		}
	}()
	return func() (map[string]int64, error) {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(shown), ended
	}
}

func sameKeys(got, want map[string]int64) bool {
	for key, revision := range want {
		if got[key] != revision {
			return false
		}
	}
	return len(got) == len(want)
}

func same(t *testing.T, stored, acknowledged map[string]int64) {
	t.Helper()
	for key, revision := range acknowledged {
		if stored[key] != revision {
			t.Errorf("%s was acknowledged at revision %d, and is stored at %d", key, revision, stored[key])
		}
	}
	for key := range stored {
		if acknowledged[key] == 0 {
			t.Errorf("%s is stored and was not acknowledged", key)
		}
	}
}

// TestCompactionOfAFullDisk: it fails without ending the process, and works when there is room.
func TestCompactionOfAFullDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
	failIfKineExits(t)
	dsn, err := openSQLite(t.Context(), dir, "normal")
	if err != nil {
		t.Fatal(err)
	}
	config := driverConfig(Options{Metrics: prometheus.NewRegistry()}, dsn)
	config.CompactInterval = 0 // when it is told to
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	b, _, err := newSQLite(ctx, &running, config, newDisk(filepath.Join(dir, "db"), 0, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	revision, err := b.Create(ctx, "/registry/key", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2500 {
		next, _, updated, err := b.Update(ctx, "/registry/key", bytes.Repeat([]byte("v"), 1000), revision, 0)
		if err != nil || !updated {
			t.Fatal(updated, err)
		}
		revision = next
	}
	// What the log has room for would let it through.
	db := database(t, dir, "normal")
	if _, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	free := fill(t, dir)
	failedBefore := compactions(t, kinemetrics.ResultError)
	if _, err := b.Compact(ctx, revision); err != nil {
		t.Fatal(err)
	}
	if compactions(t, kinemetrics.ResultError) == failedBefore {
		t.Error("a compaction of a full disk has not failed")
	}
	free()
	worked := compactions(t, kinemetrics.ResultSuccess)
	if _, err := b.Compact(ctx, revision); err != nil {
		t.Fatal(err)
	}
	if compactions(t, kinemetrics.ResultSuccess) == worked {
		t.Error("a compaction with room has failed")
	}
	if rows := number(t, db, "SELECT count(*) FROM kine"); rows > 1500 {
		t.Errorf("%d rows are left", rows)
	}
}

func compactions(t *testing.T, result string) float64 {
	t.Helper()
	return testutil.ToFloat64(kinemetrics.CompactTotal.WithLabelValues(result))
}

// TestNothingIsWrittenAfterAFailedSync: no creation, update or deletion succeeds, even if the disk works again, and
// whoever waits learns why.
func TestNothingIsWrittenAfterAFailedSync(t *testing.T) {
	s, c := openIn(t, t.TempDir(), 0)
	answer, err := put(t.Context(), c, "/registry/x/a", "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	revision := answer.Header.Revision
	s.disk.refuse(&trouble{kind: unsynced, dir: s.disk.dir, err: syscall.EIO})
	s.disk.refuse(&trouble{kind: full, dir: s.disk.dir, err: syscall.ENOSPC}) // says nothing about what is lost
	if _, err := put(t.Context(), c, "/registry/x/b", "b", 0); err == nil {
		t.Error("a creation was acknowledged")
	}
	if _, err := put(t.Context(), c, "/registry/x/a", "b", revision); err == nil {
		t.Error("an update was answered without an error")
	}
	if _, err := remove(t.Context(), c, "/registry/x/a", revision); err == nil {
		t.Error("a deletion was answered without an error")
	}
	same(t, keysOf(t, c), map[string]int64{"/registry/x/a": revision})
	if err := s.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "a sync of "+s.disk.dir+" has failed") {
		t.Errorf("whoever waits hears %v", err)
	}
	if code, _ := s.Refusal(); code != http.StatusServiceUnavailable {
		t.Errorf("the store says %d", code)
	}
}

// A write that frees one block must not let everybody in for the next.
func TestDiskThatHasHardlyAnyRoomStaysFull(t *testing.T) {
	dir := smallDisk(t, "4m")
	d := newDisk(dir, 2<<20, prometheus.NewRegistry())
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.probe(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("with room for the reserve alone: %v", err)
	}
	if err := os.Truncate(filler, 512<<10); err != nil {
		t.Fatal(err)
	}
	if err := d.probe(); err != nil {
		t.Errorf("with room for the reserve and more: %v", err)
	}
	if err := d.probe(); err != nil {
		t.Errorf("once more, with the reserve held: %v", err)
	}
}
