package datastore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

func etcdOptions(dir string) Options {
	return Options{Dir: dir, Endpoint: Etcd, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute}
}

// openEtcd starts an etcd in dir, and returns it with a client in process.
func openEtcd(t testing.TB, dir string) (*Store, *clientv3.Client) {
	t.Helper()
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	return s, c
}

// inProcess opens each engine with a client that has no connection.
var inProcess = map[string]func(t *testing.T) *clientv3.Client{
	"etcd": func(t *testing.T) *clientv3.Client {
		_, c := openEtcd(t, t.TempDir())
		return c
	},
	"sqlite": func(t *testing.T) *clientv3.Client { return open(t) },
}

// TestManyWatchesBeginAtOnce: each shows its change, whatever the others wait for.
func TestManyWatchesBeginAtOnce(t *testing.T) {
	const n = 1000
	for name, open := range inProcess {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin, err := create(ctx, c, "/registry/watched")
			if err != nil {
				t.Fatal(err)
			}
			var g errgroup.Group
			for range n {
				g.Go(func() error {
					ctx, cancel := context.WithCancel(ctx) // ends the watch
					defer cancel()
					select {
					case r := <-c.Watch(ctx, "/registry/watched", clientv3.WithRev(begin)):
						if len(r.Events) == 0 {
							return fmt.Errorf("a watch showed nothing (%v)", r.Err())
						}
					case <-ctx.Done():
						return errors.New("a watch hangs")
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeletionOfNothingIsNoSuccess: nobody can have seen a key at a revision that is not there, but for one who is late.
func TestDeletionOfNothingIsNoSuccess(t *testing.T) {
	for name, open := range inProcess {
		t.Run(name, func(t *testing.T) {
			const key = "/registry/nothing"
			answer, err := open(t).Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 1)).
				Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
			if err != nil {
				t.Fatal(err)
			}
			if answer.Succeeded || len(answer.Responses[0].GetResponseRange().Kvs) != 0 {
				t.Errorf("the answer is %v", answer)
			}
		})
	}
}

// TestCallsInProcess: writes, reads, pages, streamed lists and watches are those of a connection.
func TestCallsInProcess(t *testing.T) {
	for name, open := range inProcess {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			const n = 45
			begin, err := create(ctx, c, "/registry/paged/000")
			if err != nil {
				t.Fatal(err)
			}
			watch := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/paged/", clientv3.WithPrefix(), clientv3.WithRev(begin), clientv3.WithPrevKV())
			for i := 1; i < n; i++ {
				if _, err := create(ctx, c, fmt.Sprintf("/registry/paged/%03d", i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, read := range []func(context.Context, *clientv3.Client, string, ...clientv3.OpOption) (*clientv3.GetResponse, error){
				stream,
				func(ctx context.Context, c *clientv3.Client, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
					return c.Get(ctx, key, o...)
				},
			} {
				for _, limit := range []int64{0, 1, n - 1, n, n + 1} {
					page, err := read(ctx, c, "/registry/paged/", clientv3.WithPrefix(), clientv3.WithLimit(limit))
					if err != nil {
						t.Fatal(err)
					}
					want := limit
					if want == 0 || want > n {
						want = n
					}
					if int64(len(page.Kvs)) != want || page.More != (want < n) || page.Count != n {
						t.Errorf("a page of %d: %d keys of %d, more: %v", limit, len(page.Kvs), page.Count, page.More)
					}
				}
			}
			first, err := c.Get(ctx, "/registry/paged/000")
			if err != nil || len(first.Kvs) != 1 || first.Kvs[0].ModRevision != begin {
				t.Fatalf("one key: %v, %v", first, err)
			}
			if _, err := remove(ctx, c, "/registry/paged/000", begin); err != nil {
				t.Fatal(err)
			}
			var events []*clientv3.Event
			for len(events) < n+1 {
				answer, ok := <-watch
				if !ok || answer.Err() != nil {
					t.Fatalf("after %d events: %v", len(events), answer.Err())
				}
				events = append(events, answer.Events...)
			}
			for i, e := range events[:n] {
				if !e.IsCreate() || string(e.Kv.Key) != fmt.Sprintf("/registry/paged/%03d", i) {
					t.Errorf("event %d: %v", i, e)
				}
			}
			if e := events[n]; e.Type != clientv3.EventTypeDelete || e.PrevKv.GetModRevision() != begin {
				t.Errorf("the deletion: %v", e)
			}
			ended, end := context.WithCancel(ctx)
			end()
			if _, err := stream(ended, c, "/registry/paged/", clientv3.WithPrefix()); !errors.Is(err, context.Canceled) {
				t.Errorf("a list that is given up: %v", err)
			}
			if _, err := c.Get(ctx, "/registry/paged/", clientv3.WithPrefix(), clientv3.WithRev(1<<40)); !errors.Is(err, rpctypes.ErrFutureRev) {
				t.Errorf("a list at a revision to come: %v", err)
			}
			if _, err := c.Status(ctx, ""); err != nil {
				t.Errorf("the status: %v", err)
			}
		})
	}
}

// TestEtcdHasNoPort: it is reached in process and on the socket, which only its owner may use, and nowhere else.
func TestEtcdHasNoPort(t *testing.T) {
	dir := t.TempDir()
	before := ports(t)
	s, c := openEtcd(t, dir)
	if after := ports(t); after != before {
		t.Errorf("it listens:\n%s\nbefore:\n%s", after, before)
	}
	revision, err := create(t.Context(), c, "/registry/one")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "etcd.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	dialed, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() }) // it has only read
	if got, err := dialed.Get(t.Context(), "/registry/one"); err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != revision {
		t.Errorf("on the socket: %v, %v", got, err)
	}
}

// ports returns this process's TCP sockets that listen.
func ports(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	known := fmt.Sprintf(":%04X", listener.Addr().(*net.TCPAddr).Port)
	shown := listeners()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(shown, func(s string) bool { return strings.HasSuffix(s, known) }) {
		t.Fatalf("a socket that listens on %s is not seen: %q", known, shown)
	}
	return strings.Join(listeners(), "\n")
}

func listeners() (all []string) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && ours(f[9]) {
				all = append(all, f[1])
			}
		}
	}
	return all
}

// ours reports whether a socket's inode is this process's.
func ours(inode string) bool {
	files, _ := filepath.Glob("/proc/self/fd/*")
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// TestEtcdKeepsWhatASmallDeviceCanHold: its log does not take 128 MB at once.
func TestEtcdKeepsWhatASmallDeviceCanHold(t *testing.T) {
	dir := t.TempDir()
	openEtcd(t, dir)
	size := int64(0)
	logs, err := filepath.Glob(filepath.Join(etcdDir(dir), "member", "wal", "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("its log: %v, %v", logs, err)
	}
	for _, l := range logs {
		if info, err := os.Stat(l); err == nil {
			size += info.Size()
		}
	}
	if size > 2*etcdSegment {
		t.Errorf("its log takes %d bytes: %v", size, logs)
	}
}

// etcdWriterDir is in the environment of a test binary that is to write to an etcd until it is killed.
const etcdWriterDir = "REAP_TEST_ETCD_DIR"

// killedKeys is what the names of its keys begin with.
const killedKeys = "/registry/killed/"

// writeToEtcd creates keys and prints each that is acknowledged.
func writeToEtcd(dir string) error {
	s, err := Start(context.Background(), etcdOptions(dir))
	if err != nil {
		return err
	}
	c := s.Client()
	var mu sync.Mutex
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf(killedKeys+"%d-%d-%d", os.Getpid(), w, i)
				if _, err := create(context.Background(), c, key); err != nil {
					return
				}
				mu.Lock()
				fmt.Println(key)
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	return errors.New("a write has failed")
}

// TestKillTakesNothingFromEtcd: every acknowledged key is there after each kill, and the revision goes on.
func TestKillTakesNothingFromEtcd(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range 3 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), etcdWriterDir+"="+dir)
		var said bytes.Buffer
		writer.Stderr = &said
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acknowledged[lines.Text()] = true
			if n == 500*(round+1) {
				if err := writer.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		err = writer.Wait()
		if s, ok := writer.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGKILL {
			t.Fatalf("the writer has ended by itself: %v\n%s", err, said.String())
		}
		for _, wrong := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if strings.Contains(said.String(), wrong) {
				t.Errorf("the writer said, before it was killed:\n%s", said.String())
			}
		}
	}
	if len(acknowledged) < 1500 {
		t.Fatalf("only %d keys were acknowledged", len(acknowledged))
	}
	_, c := openEtcd(t, dir)
	there, err := c.Get(t.Context(), killedKeys, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range there.Kvs {
		delete(acknowledged, string(kv.Key))
	}
	for key := range acknowledged {
		t.Errorf("%s is lost", key)
	}
}

// TestDamagedEtcdIsAnError: not the end of the process.
func TestDamagedEtcdIsAnError(t *testing.T) {
	for _, file := range []string{"snap/db", "wal/*.wal"} {
		dir := t.TempDir()
		s, err := Start(t.Context(), etcdOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		found, err := filepath.Glob(filepath.Join(etcdDir(dir), "member", file))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", file, found, err)
		}
		raw, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(len(raw), 64<<10) {
			raw[i] ^= 0x5a
		}
		if err := os.WriteFile(found[0], raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err = Start(t.Context(), etcdOptions(dir))
		if err == nil {
			s.Stop()
			t.Errorf("%s: it is used", file)
		} else if !strings.Contains(err.Error(), etcdDir(dir)) || !strings.Contains(err.Error(), "reap snapshot restore") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestEtcdRefusesWritesBeforeTheDiskIsFull: etcd could not go on once it is.
func TestEtcdRefusesWritesBeforeTheDiskIsFull(t *testing.T) {
	dir := smallDisk(t, "96m")
	s, c := openEtcd(t, dir)
	if code, text := s.Refusal(); code != 0 {
		t.Fatalf("an empty disk: %s", text)
	}
	ballast := filepath.Join(dir, "ballast")
	free, _ := freeOn(dir)
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(allocate(f, free-etcdFloor/2), f.Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if code, _ := s.Refusal(); code == 0 {
			return errors.New("writes are taken")
		}
		return nil
	})
	// The API server refuses them then. etcd itself still takes deletions, and whatever else keeps coming.
	if _, err := create(t.Context(), c, "/registry/late"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
}

// TestMoveToEtcdAndBack: keys keep values, revisions and times to live; the revision is beyond all that was given out,
// and everything below it counts as compacted.
func TestMoveToEtcdAndBack(t *testing.T) {
	sinks := map[string]func(dir string) (dump.Sink, error){
		Etcd: func(dir string) (dump.Sink, error) { return NewEtcdSink(t.Context(), dir) },
		"":   func(dir string) (dump.Sink, error) { return NewSQLiteSink(t.Context(), dir) },
	}
	dir := t.TempDir()
	from, c := openIn(t, dir, 0)
	for i := range 1500 { // more than one transaction of a sink
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/small/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	const changed, leased = "/registry/small/0007", "/registry/events/leased"
	before, err := c.Get(t.Context(), changed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(t.Context(), c, changed, "changed", before.Kvs[0].ModRevision); err != nil {
		t.Fatal(err)
	}
	_, err = c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(leased), "=", 0)).Then(clientv3.OpPut(leased, "event", clientv3.WithLease(3600))).Commit()
	if err != nil {
		t.Fatal(err)
	}
	head, want := dumped(t, from)
	delete(want, canary) // which each start writes
	for _, endpoint := range []string{Etcd, Etcd, "", Etcd} {
		dir := t.TempDir()
		sink, err := sinks[endpoint](dir)
		if err != nil {
			t.Fatal(err)
		}
		revision := head.Revision + 1_000_000
		err = from.Read(t.Context(), func(dump.Head) error { return nil }, sink.Put)
		if err = errors.Join(err, sink.Finish(revision), sink.Close()); err != nil {
			t.Fatal(err)
		}
		if endpoint == Etcd {
			if got, err := EtcdRevision(t.Context(), dir); err != nil || got != revision {
				t.Errorf("the files are at revision %d (%v), want %d", got, err, revision)
			}
		}
		o := etcdOptions(dir)
		o.Endpoint, o.Synchronous = endpoint, "normal"
		to, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(to.Stop)
		c, err := clientv3.New(clientv3.Config{Endpoints: to.Endpoints, Context: t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // its watches are still open
		headAfter, after := dumped(t, to)
		if headAfter.Revision <= revision {
			t.Errorf("%q: the store is at %d, not beyond %d", endpoint, headAfter.Revision, revision)
		}
		delete(after, canary)
		for key, w := range want {
			got := after[key]
			if string(got.Value) != string(w.Value) || got.CreateRevision != w.CreateRevision || got.ModRevision != w.ModRevision ||
				got.TTL > w.TTL || w.TTL-got.TTL > time.Minute {
				t.Errorf("%q: %s: got %+v, want %+v", endpoint, key, got, w)
			}
		}
		if len(after) != len(want) {
			t.Errorf("%q: %d keys, want %d", endpoint, len(after), len(want))
		}
		for _, old := range []int64{1, head.Revision, revision - 1} {
			if _, err := c.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(old)); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("%q: a list at %d: %v", endpoint, old, err)
			}
		}
		if got, err := create(t.Context(), c, "/registry/new"); err != nil || got <= headAfter.Revision {
			t.Errorf("%q: the next write is at %d (%v)", endpoint, got, err)
		}
		from = to
		if head, want = dumped(t, to); len(want) != len(after)+2 { // the canary and the new key
			t.Errorf("%q: %d keys after the write", endpoint, len(want))
		}
		delete(want, canary)
		if _, err := remove(t.Context(), c, "/registry/new", want["/registry/new"].ModRevision); err != nil {
			t.Fatal(err)
		}
		delete(want, "/registry/new")
		head.Revision++
	}
}

// TestEtcdGivesFreePagesBack, and keeps what it holds.
func TestEtcdGivesFreePagesBack(t *testing.T) {
	s, c := openEtcd(t, t.TempDir())
	e := s.engine.(*etcd)
	large := strings.Repeat("large", 200<<10/5)
	for i := range 100 {
		if _, err := put(t.Context(), c, fmt.Sprintf("/registry/x/%d", i), large, 0); err != nil {
			t.Fatal(err)
		}
	}
	for key, revision := range keysOf(t, c) {
		if key == "/registry/x/7" {
			continue
		}
		if _, err := remove(t.Context(), c, key, revision); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Compact(t.Context(), e.member.KV().Rev(), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	// etcd counts the pages whenever it commits, and a page is free from the commit after the one that left it.
	e.member.Backend().ForceCommit()
	e.member.Backend().ForceCommit()
	before, used := e.sizes()
	if before-used < defragmentFrom || before-used < used {
		t.Fatalf("of %d bytes %d are in use", before, used)
	}
	seen := e.giveBack(0) // somebody has written
	if after, _ := e.sizes(); after != before {
		t.Errorf("the database has %d bytes, before %d, though nobody rested", after, before)
	}
	e.giveBack(seen)
	if after, _ := e.sizes(); after > before/10 {
		t.Errorf("the database has %d bytes, before %d", after, before)
	}
	if got, err := c.Get(t.Context(), "/registry/x/7"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != large {
		t.Errorf("what is left: %v", err)
	}
	if _, err := create(t.Context(), c, "/registry/new"); err != nil {
		t.Error(err)
	}
}
