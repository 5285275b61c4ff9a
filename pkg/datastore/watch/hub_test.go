package watch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

// TestWatchesOfRandomWorlds: watches that begin anywhere, slow clients, slow reads and a log that cuts its followers off: each watch is
// sent all of its changes in order and once, and no progress comes too early.
func TestWatchesOfRandomWorlds(t *testing.T) {
	for seed := range size.Of[uint64](50, 75, 1000) {
		bubble.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			l := newMemoryLog()
			l.delay = time.Duration(random.IntN(3)) * 10 * time.Millisecond
			l.drop = []float64{0, 0, 0.02}[random.IntN(3)]
			l.skip = []float64{0, 0, 0.02}[random.IntN(3)]
			h := start(t, l)
			synctest.Wait()
			key := func() string { return fmt.Sprintf("/%c/%d", 'a'+rune(random.IntN(4)), random.IntN(5)) }
			for range random.IntN(700) {
				l.put(key())
			}
			var clients []*client
			var conns []*connection
			for range 1 + random.IntN(3) {
				slow := time.Duration(random.IntN(3)) * 7 * time.Millisecond
				c := &client{t: t, log: l, watches: map[int64]*followed{}, pause: func() time.Duration { return slow }}
				conn := connect(t, h)
				go c.follow(conn)
				clients, conns = append(clients, c), append(conns, conn)
			}
			for range 20 + random.IntN(60) {
				at := random.IntN(len(clients))
				switch random.IntN(4) {
				case 0:
					current, _ := l.CurrentRevision(t.Context())
					a := asked{key: key(), from: 2 + random.Int64N(current+20)} // the first change is kine's own
					switch random.IntN(3) {
					case 0:
						a.key = a.key[:3]
						a.end = clientv3.GetPrefixRangeEnd(a.key)
					case 1:
						a.key, a.end = "\x00", "\x00"
					}
					if random.IntN(3) == 0 {
						a.from = 0
					}
					clients[at].mu.Lock()
					clients[at].asked = append(clients[at].asked, a)
					clients[at].mu.Unlock()
					conns[at].create(a.key, a.end, a.from)
				case 1:
					for range random.IntN(400) {
						l.put(key())
						if random.IntN(8) == 0 {
							time.Sleep(time.Millisecond)
						}
					}
				case 2:
					conns[at].askProgress()
				default:
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
			}
			time.Sleep(2 * time.Minute) // all that was slow has come
			last := l.put("/a/0")
			time.Sleep(11 * time.Second)
			for i, c := range clients {
				conns[i].askProgress()
				synctest.Wait()
				time.Sleep(time.Second)
				c.mu.Lock()
				for _, w := range c.watches {
					if w.from <= last && w.seen < last {
						t.Errorf("seed %d: a watch of %v ends at revision %d of %d", seed, w.asked, w.seen, last)
					}
				}
				if len(c.watches) != len(c.asked) || len(c.watches) > 0 && c.told == 0 {
					t.Errorf("seed %d: %d of %d watches were created, and %d progresses told", seed, len(c.watches), len(c.asked), c.told)
				}
				c.mu.Unlock()
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// TestWatchReadsItsKeysAlone: a watch that begins in the past reads its own changes, and one that begins at the last reads nothing.
func TestWatchReadsItsKeysAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		h := start(t, l)
		last := l.put("/a/1")
		synctest.Wait()
		c := connect(t, h)
		c.create("/a/", "/a0", 2)
		if r := <-c.answers; !r.Created {
			t.Errorf("the first answer is %v", r)
		}
		if r := <-c.answers; len(r.Events) != 1 || r.Events[0].Kv.ModRevision != last {
			t.Errorf("the second answer is %v", r)
		}
		c.create("/b/", "/b0", last+1)
		<-c.answers
		synctest.Wait()
		if want := []string{"/a/ /a0"}; !slices.Equal(l.reads, want) {
			t.Errorf("read were %q, want %q", l.reads, want)
		}
	})
}

// TestProgressIsToldWhenSomethingHasChanged: a quiet watch is told how far the log is once after a change, and not again.
func TestProgressIsToldWhenSomethingHasChanged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		h := start(t, l)
		synctest.Wait()
		c := connect(t, h)
		c.create("/a/", "/a0", 0)
		<-c.answers
		last := l.put("/b/1")
		if r := <-c.answers; r.WatchId != 1 || r.Header.Revision != last || len(r.Events) > 0 {
			t.Errorf("the watch was sent %v", r)
		}
		select {
		case r := <-c.answers:
			t.Errorf("without a change the watch was sent %v", r)
		case <-time.After(time.Minute):
		}
		c.askProgress()
		if r := <-c.answers; r.WatchId != clientv3.InvalidWatchID || r.Header.Revision != last {
			t.Errorf("asked for progress, the call was sent %v", r)
		}
	})
}

// TestProgressDoesNotGoBack: a watch that has just read the log may be ahead of the changes that the hub has handed out.
func TestProgressDoesNotGoBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		h := start(t, l)
		synctest.Wait()
		l.held = true
		last := l.put("/a/1")
		c := connect(t, h)
		c.create("/a/", "/a0", 1)
		<-c.answers
		if r := <-c.answers; len(r.Events) != 1 || r.Header.Revision != last {
			t.Fatalf("the watch was sent %v", r)
		}
		c.askProgress()
		select {
		case r := <-c.answers:
			t.Errorf("asked for progress behind a change of revision %d, the call was sent %v", last, r)
		case <-time.After(time.Second):
		}
		l.letGo()
		synctest.Wait()
		c.askProgress()
		if r := <-c.answers; r.WatchId != clientv3.InvalidWatchID || r.Header.Revision != last {
			t.Errorf("asked for progress, the call was sent %v", r)
		}
	})
}

// TestWatchesThatAreRefused: the client learns why, and the other watches of the call go on.
func TestWatchesThatAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		for range 10 {
			l.put("/a/1")
		}
		l.compacted = 5
		h := start(t, l)
		synctest.Wait()
		c := connect(t, h)
		c.create("/b/", "/b0", 0)
		<-c.answers

		c.create("/a/", "/a0", 3)
		<-c.answers
		if r := <-c.answers; !r.Canceled || r.WatchId != 2 || r.CompactRevision != 5 {
			t.Errorf("a watch from before the compaction is answered with %v", r)
		}
		c.create("/a/", "/a0", -1)
		if r := <-c.answers; !r.Canceled || !r.Created || r.WatchId != clientv3.InvalidWatchID {
			t.Errorf("a watch from a negative revision is answered with %v", r)
		}
		c.requests <- &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte("/a"), WatchId: 7},
		}}
		if r := <-c.answers; !r.Canceled || r.CancelReason != server.ErrInvalidWatch.Error() {
			t.Errorf("a watch with a number is answered with %v", r)
		}
		l.mu.Lock()
		l.fails = errors.New("the disk is gone")
		l.mu.Unlock()
		c.create("/a/", "/a0", 7)
		<-c.answers
		if r := <-c.answers; !r.Canceled || r.CompactRevision != 0 || !strings.Contains(r.CancelReason, "the disk is gone") {
			t.Errorf("a watch that cannot be read is answered with %v", r)
		}

		c.askProgress()
		if r := <-c.answers; r.WatchId != clientv3.InvalidWatchID || r.Created {
			t.Errorf("asked for the progress of what is left, the call was sent %v", r)
		}
		last := l.put("/b/1")
		if r := <-c.answers; r.WatchId != 1 || len(r.Events) != 1 || r.Events[0].Kv.ModRevision != last {
			t.Errorf("the first watch was sent %v", r)
		}
		c.requests <- &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: 1}}}
		if r := <-c.answers; r.WatchId != 1 || !r.Canceled || r.CancelReason != "" {
			t.Errorf("the end of a watch is answered with %v", r)
		}
		l.put("/b/2")
		synctest.Wait()
		select {
		case r := <-c.answers:
			t.Errorf("after its end a watch was sent %v", r)
		default:
		}
	})
}

// TestSlowWatchIsBounded: what waits for a client that takes nothing is bounded, and it misses nothing when it goes on.
func TestSlowWatchIsBounded(t *testing.T) {
	for name, value := range map[string][]byte{"small values": nil, "large values": make([]byte, 1<<20)} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newMemoryLog()
				l.value = value
				h := start(t, l)
				synctest.Wait()
				c := connect(t, h)
				c.create("/a/", "/a0", 0)
				<-c.answers
				const n = 20 * maxUnsent
				bounded := func() {
					t.Helper()
					h.mu.Lock()
					defer h.mu.Unlock()
					for w := range h.watches {
						waiting := slices.Clone(w.kept)
						for _, r := range w.stream.queue {
							waiting = append(waiting, r.Events...)
						}
						if len(waiting) > maxUnsent+pageSize || sizeOf(waiting) > 2*maxUnsentBytes {
							t.Errorf("%d changes of %d bytes wait for a client that takes none", len(waiting), sizeOf(waiting))
						}
					}
				}
				for range n {
					l.put("/a/1")
					synctest.Wait()
				}
				bounded()
				for next := int64(2); next < n+2; {
					for _, e := range (<-c.answers).Events {
						if e.Kv.ModRevision != next {
							t.Fatalf("revision %d comes after %d", e.Kv.ModRevision, next-1)
						}
						next++
					}
					synctest.Wait()
					bounded()
				}
			})
		})
	}
}

// TestEventsAreAsEtcdTellsThem: creations have no previous value, and the API server's key of its compactions has its own name.
func TestEventsAreAsEtcdTellsThem(t *testing.T) {
	kv := func(rev int64) *server.KeyValue {
		return &server.KeyValue{Key: "/a", Value: []byte("v"), Version: 2, CreateRevision: 3, ModRevision: rev, Lease: 4}
	}
	for name, c := range map[string]struct {
		event    server.Event
		kind     mvccpb.Event_EventType
		previous bool
	}{
		"creation":                 {server.Event{Create: true, KV: kv(5), PrevKV: kv(4)}, mvccpb.PUT, false},
		"update":                   {server.Event{KV: kv(5), PrevKV: kv(4)}, mvccpb.PUT, true},
		"deletion":                 {server.Event{Delete: true, KV: kv(5), PrevKV: kv(4)}, mvccpb.DELETE, true},
		"previous value compacted": {server.Event{KV: kv(5)}, mvccpb.PUT, false},
	} {
		e := toEvent(&c.event)
		if e.Type != c.kind || (e.PrevKv != nil) != c.previous || e.Kv.ModRevision != 5 || e.Kv.CreateRevision != 3 || e.Kv.Version != 2 || e.Kv.Lease != 4 || string(e.Kv.Value) != "v" {
			t.Errorf("%s: %v", name, e)
		}
	}
	e := toEvent(&server.Event{KV: &server.KeyValue{Key: compactRevisionInKine, Value: server.EncodeVersion(7, []byte("99")), ModRevision: 8}})
	if string(e.Kv.Key) != compactRevision || e.Kv.Version != 7 || string(e.Kv.Value) != "99" || e.Kv.ModRevision != 8 {
		t.Errorf("the API server's compaction: %v", e)
	}
}
