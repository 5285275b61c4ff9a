package datastore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// openIn starts a store in dir.
func openIn(t *testing.T, dir string, reserve int64) (*Store, *clientv3.Client) {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Reserve: reserve, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
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

// eventually tries until it works, as long as the test may run.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("it has not worked until the end of the test: %v", err)
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
	watch := c.Watch(t.Context(), "/registry/x/", clientv3.WithPrefix())
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
		var refused error
		for ; refused == nil; next++ {
			refused = write(next)
		}
		if code := status.Code(refused); code != codes.ResourceExhausted {
			t.Errorf("a write to a full disk is answered with %s: %v", code, refused)
		}
		if code, text := Explain(refused.Error()); code != http.StatusInsufficientStorage || !strings.Contains(text, filepath.Join(dir, "db")) {
			t.Errorf("the answer is %d %q, from %v", code, text, refused)
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
		for ; failures < 20; next++ {
			if write(next) != nil {
				failures++
			}
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
	watched := map[string]int64{}
	for !sameKeys(watched, stored) {
		select {
		case <-t.Context().Done():
			t.Fatalf("the watch has shown %d of %d keys", len(watched), len(stored))
		case r := <-watch:
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			for _, e := range r.Events {
				if e.Type == clientv3.EventTypeDelete {
					delete(watched, string(e.Kv.Key))
				} else {
					watched[string(e.Kv.Key)] = e.Kv.ModRevision
				}
			}
		}
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
