package datastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/bubble"
)

// TestWatchThatNobodyReadsIsBounded: what waits for it in this process is bounded, and it misses nothing when it is read again.
func TestWatchThatNobodyReadsIsBounded(t *testing.T) {
	const (
		n    = 1000
		size = 50_000
		most = 40 << 20 // all of them, each with the value before, are 100 MB
		key  = "/registry/configmaps/default/large"
	)
	for name, open := range map[string]func(t *testing.T) (*Store, *clientv3.Client){
		"sqlite": func(t *testing.T) (*Store, *clientv3.Client) { return openIn(t, t.TempDir(), 0) },
		"etcd":   func(t *testing.T) (*Store, *clientv3.Client) { return openEtcd(t, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			first, err := put(ctx, c, key, "first", 0)
			if err != nil {
				t.Fatal(err)
			}
			revision := first.Header.Revision
			watching, end := context.WithCancel(clientv3.WithRequireLeader(ctx))
			defer end()
			watch := c.Watch(watching, key, clientv3.WithRev(revision+1), clientv3.WithPrevKV())
			// This one is read: when it has shown a change, the other one has been handed the change, too.
			read := c.Watch(watching, key, clientv3.WithRev(revision+1), clientv3.WithPrevKV())
			next := revision + 1
			for i := range n {
				answer, err := put(ctx, c, key, string(bytes.Repeat([]byte{byte(i)}, size)), revision)
				if err != nil || !answer.Succeeded {
					t.Fatal(answer, err)
				}
				revision = answer.Header.Revision
				for next <= revision {
					next = nextShown(t, <-read, next)
				}
			}
			if e, ok := s.engine.(*etcd); ok {
				e.member.KV().Commit() // what waits for its database is not the watch's
			}
			waiting := heap()
			next = first.Header.Revision + 1
			for next <= revision {
				next = nextShown(t, <-watch, next)
			}
			if held := waiting - heap(); held > most {
				t.Errorf("%d MB wait for a watch that nobody reads", held>>20)
			}
		})
	}
}

// nextShown returns the revision after the changes of a response, which have to begin with next and to have the value before.
func nextShown(t *testing.T, r clientv3.WatchResponse, next int64) int64 {
	t.Helper()
	if len(r.Events) == 0 {
		t.Fatalf("the watch ends before revision %d: %v (%v)", next, r, r.Err())
	}
	for _, e := range r.Events {
		if e.Kv.ModRevision != next || e.PrevKv == nil || e.PrevKv.ModRevision != next-1 {
			t.Fatalf("revision %d comes after %d, with the value before: %v", e.Kv.ModRevision, next-1, e.PrevKv != nil)
		}
		next++
	}
	return next
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers have let go, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// scripted is a server of watches that records what it is asked and sends what a test says.
type scripted struct {
	etcdserverpb.UnimplementedWatchServer
	asked chan *etcdserverpb.WatchRequest
	sends chan *etcdserverpb.WatchResponse
	sent  int // how many the client has taken
}

func (s *scripted) Watch(stream etcdserverpb.Watch_WatchServer) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case r := <-s.sends:
				if stream.Send(r) != nil {
					return
				}
				s.sent++
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		r, err := stream.Recv()
		if err != nil {
			<-done
			return err
		}
		s.asked <- r
	}
}

// watchScripted begins a watch of a server that a test scripts. The bubble of the test ends only when no goroutine is left.
func watchScripted(t *testing.T, opts ...clientv3.OpOption) (*scripted, *watcher, clientv3.WatchChan) {
	s := &scripted{asked: make(chan *etcdserverpb.WatchRequest, 10), sends: make(chan *etcdserverpb.WatchResponse, 10)}
	w := newWatcher(s)
	t.Cleanup(func() { _ = w.Close() }) // it never fails
	s.sends <- &etcdserverpb.WatchResponse{Created: true, WatchId: 1, Header: &etcdserverpb.ResponseHeader{Revision: 5}}
	return s, w, w.Watch(t.Context(), "/a/", opts...)
}

func changeAt(revision int64) *etcdserverpb.WatchResponse {
	return &etcdserverpb.WatchResponse{WatchId: 1, Header: &etcdserverpb.ResponseHeader{Revision: revision}, Events: []*mvccpb.Event{
		{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{Key: []byte("/a/1"), ModRevision: revision}},
	}}
}

// TestServerWaitsForTheReaderOfAWatch: it hands over one response at a time.
func TestServerWaitsForTheReaderOfAWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _, watch := watchScripted(t)
		for revision := range int64(5) {
			s.sends <- changeAt(revision)
		}
		synctest.Wait()
		for revision := range int64(5) {
			if s.sent != int(revision)+1 { // with the one that the watch has begun
				t.Errorf("%d responses are taken after %d changes are read", s.sent, revision)
			}
			if r := <-watch; r.Events[0].Kv.ModRevision != revision {
				t.Errorf("revision %d comes in place of %d", r.Events[0].Kv.ModRevision, revision)
			}
			synctest.Wait()
		}
	})
}

// TestOptionsOfAWatchReachTheServer: all that etcd's client passes on, but for fragments, which it puts together again.
func TestOptionsOfAWatchReachTheServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _, watch := watchScripted(t, clientv3.WithPrefix(), clientv3.WithRev(7), clientv3.WithPrevKV(), clientv3.WithProgressNotify(),
			clientv3.WithFilterDelete(), clientv3.WithFilterPut(), clientv3.WithFragment(), clientv3.WithCreatedNotify())
		r := (<-s.asked).GetCreateRequest()
		if string(r.Key) != "/a/" || string(r.RangeEnd) != "/a0" || r.StartRevision != 7 || !r.PrevKv || !r.ProgressNotify || r.Fragment || fmt.Sprint(r.Filters) != "[NOPUT NODELETE]" {
			t.Errorf("the server is asked for %v", r)
		}
		if r := <-watch; !r.Created || r.Header.Revision != 5 {
			t.Errorf("the first response is %v", r)
		}
	})
}

// TestProgressIsAskedOfWatchesAlike: as with etcd's client, of those whose context has the same metadata.
func TestProgressIsAskedOfWatchesAlike(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, w, watch := watchScripted(t)
		<-s.asked // its creation
		if err := w.RequestProgress(clientv3.WithRequireLeader(t.Context())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(s.asked) > 0 {
			t.Errorf("a watch is asked for the progress of others: %v", <-s.asked)
		}
		if err := w.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := <-s.asked; r.GetProgressRequest() == nil {
			t.Errorf("the server is asked for %v", r)
		}
		s.sends <- &etcdserverpb.WatchResponse{WatchId: clientv3.InvalidWatchID, Header: &etcdserverpb.ResponseHeader{Revision: 9}}
		if r := <-watch; !r.IsProgressNotify() || r.Header.Revision != 9 {
			t.Errorf("the progress is %v", r)
		}
	})
}

// TestEndsOfAWatch: the channel tells what etcd's client tells, is closed then, and no goroutine stays.
func TestEndsOfAWatch(t *testing.T) {
	header := &etcdserverpb.ResponseHeader{Revision: 9}
	for name, c := range map[string]struct {
		end  func(s *scripted, w *watcher, cancel context.CancelFunc)
		want error // none: the channel is closed without a response
	}{
		"its history is compacted": {func(s *scripted, _ *watcher, _ context.CancelFunc) {
			s.sends <- &etcdserverpb.WatchResponse{WatchId: 1, Header: header, Canceled: true, CompactRevision: 8}
		}, rpctypes.ErrCompacted},
		"the server cannot go on": {func(s *scripted, _ *watcher, _ context.CancelFunc) {
			s.sends <- &etcdserverpb.WatchResponse{WatchId: 1, Header: header, Canceled: true, CancelReason: "a failed read"}
		}, nil},
		"its caller cancels it": {func(_ *scripted, _ *watcher, cancel context.CancelFunc) { cancel() }, nil},
		"its caller cancels it while a change waits": {func(s *scripted, _ *watcher, cancel context.CancelFunc) {
			s.sends <- changeAt(6)
			synctest.Wait()
			cancel()
			synctest.Wait()
		}, nil},
		"the client is closed": {func(_ *scripted, w *watcher, _ context.CancelFunc) { _ = w.Close() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &scripted{asked: make(chan *etcdserverpb.WatchRequest, 10), sends: make(chan *etcdserverpb.WatchResponse, 10)}
				w := newWatcher(s)
				s.sends <- &etcdserverpb.WatchResponse{Created: true, WatchId: 1, Header: header}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				watch := w.Watch(ctx, "/a/")
				c.end(s, w, cancel)
				if c.want != nil {
					if r := <-watch; !errors.Is(r.Err(), c.want) {
						t.Errorf("the watch ends with %v", r.Err())
					}
				}
				if r, open := <-watch; open {
					t.Errorf("the watch goes on with %v", r)
				}
			})
		})
	}
}

// TestRefusedWatchSaysWhy: the response comes though the caller has no channel yet.
func TestRefusedWatchSaysWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &scripted{asked: make(chan *etcdserverpb.WatchRequest, 10), sends: make(chan *etcdserverpb.WatchResponse, 10)}
		s.sends <- &etcdserverpb.WatchResponse{
			WatchId: clientv3.InvalidWatchID, Header: &etcdserverpb.ResponseHeader{}, Created: true, Canceled: true, CancelReason: rpctypes.ErrCompacted.Error(),
		}
		watch := newWatcher(s).Watch(t.Context(), "/a/", clientv3.WithRev(-1))
		if r := <-watch; !errors.Is(r.Err(), rpctypes.ErrCompacted) {
			t.Errorf("the watch ends with %v", r.Err())
		}
		if r, open := <-watch; open {
			t.Errorf("the watch goes on with %v", r)
		}
	})
}
