package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

// memoryLog is a log in memory that keeps what has been asked of it.
type memoryLog struct {
	mu        sync.Mutex
	changes   []*server.Event // that of revision r at r-1
	value     []byte          // of each change
	compacted int64
	followers map[chan server.EventBatch]struct{}
	reads     []string // the key and end of each
	// delay is how long a read takes, at most; drop is how likely it is that followers are cut off at a change.
	random *rand.Rand
	delay  time.Duration
	drop   float64
	// skip is how likely it is that a follower is not handed a change, and cut off a moment later, as kine does with one that is too slow.
	skip  float64
	fails error
	// held: followers get no changes until they are let go, though the log has them.
	held    bool
	waiting []*server.Event
}

func newMemoryLog() *memoryLog {
	l := &memoryLog{followers: map[chan server.EventBatch]struct{}{}, random: rand.New(rand.NewPCG(0, 0))}
	l.put("/first") // kine's own
	return l
}

// put appends the next change of a key: it is created, updated, deleted, created, …
func (l *memoryLog) put(key string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &server.Event{Create: true, KV: &server.KeyValue{Key: key, Value: l.value, ModRevision: int64(len(l.changes) + 1)}}
	for _, old := range slices.Backward(l.changes) {
		if old.KV.Key == key && !old.Delete {
			e.Create, e.PrevKV, e.Delete = false, old.KV, !old.Create
			break
		} else if old.KV.Key == key {
			break
		}
	}
	l.changes = append(l.changes, e)
	if l.held {
		l.waiting = append(l.waiting, e)
	} else {
		l.hand(e)
	}
	return e.KV.ModRevision
}

// letGo gives followers what was held back.
func (l *memoryLog) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.waiting {
		l.hand(e)
	}
	l.held, l.waiting = false, nil
}

// hand gives followers a change. The caller holds the lock.
func (l *memoryLog) hand(e *server.Event) {
	for f := range l.followers {
		if l.skip > 0 && l.random.Float64() < l.skip {
			time.AfterFunc(time.Millisecond, func() { l.cutOff(f) })
			continue
		}
		select {
		case f <- server.EventBatch{CurrentRev: e.KV.ModRevision, Events: []*server.Event{e}}:
			if l.random.Float64() >= l.drop {
				continue
			}
		default: // it is too slow
		}
		delete(l.followers, f)
		close(f)
	}
}

func (l *memoryLog) CurrentRevision(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.changes)), nil
}

func (l *memoryLog) CompactRevision(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.compacted, nil
}

func (l *memoryLog) After(_ context.Context, key, end string, revision, limit int64) (server.EventBatch, error) {
	l.mu.Lock()
	wait := time.Duration(l.random.Int64N(int64(l.delay) + 1))
	l.reads = append(l.reads, key+" "+end)
	l.mu.Unlock()
	time.Sleep(wait / 2)
	batch, err := l.after(key, end, revision, limit)
	time.Sleep(wait / 2)
	return batch, err
}

func (l *memoryLog) after(key, end string, revision, limit int64) (server.EventBatch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := server.EventBatch{CurrentRev: int64(len(l.changes))}
	switch {
	case l.fails != nil:
		return batch, l.fails
	case revision < l.compacted:
		return batch, server.ErrCompacted
	}
	for _, e := range l.changes[min(revision, batch.CurrentRev):] {
		if e.InRange(key, end) && int64(len(batch.Events)) < limit {
			batch.Events = append(batch.Events, e)
		}
	}
	return batch, nil
}

func (l *memoryLog) Watch(ctx context.Context) <-chan server.EventBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := make(chan server.EventBatch, 8)
	l.followers[f] = struct{}{}
	context.AfterFunc(ctx, func() { l.cutOff(f) })
	return f
}

func (l *memoryLog) cutOff(f chan server.EventBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.followers[f]; ok {
		delete(l.followers, f)
		close(f)
	}
}

// connection is both ends of a call.
type connection struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan *etcdserverpb.WatchRequest
	answers  chan *etcdserverpb.WatchResponse
}

func (c *connection) Context() context.Context { return c.ctx }

func (c *connection) Recv() (*etcdserverpb.WatchRequest, error) {
	select {
	case r, ok := <-c.requests:
		if !ok {
			return nil, io.EOF
		}
		return r, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

func (c *connection) Send(r *etcdserverpb.WatchResponse) error {
	select {
	case c.answers <- r:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// connect begins a call of the hub, which ends with the test.
func connect(t *testing.T, h *Hub) *connection {
	ctx, cancel := context.WithCancel(t.Context())
	c := &connection{ctx: ctx, requests: make(chan *etcdserverpb.WatchRequest), answers: make(chan *etcdserverpb.WatchResponse)}
	done := make(chan error)
	go func() { done <- h.Serve(c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
	})
	return c
}

func (c *connection) create(key, end string, from int64) {
	c.requests <- &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{
		Key: []byte(key), RangeEnd: []byte(end), StartRevision: from, ProgressNotify: true,
	}}}
}

func (c *connection) askProgress() {
	c.requests <- &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}}
}

// start runs a hub until the end of the test. It must be called in a bubble of synctest.
func start(t *testing.T, l *memoryLog) *Hub {
	h := NewHub(l, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return h
}

// client follows what one call is answered, and holds it against etcd's promises.
type client struct {
	t       *testing.T
	log     *memoryLog
	pause   func() time.Duration // before each answer is taken
	mu      sync.Mutex
	asked   []asked
	watches map[int64]*followed
	told    int // progress
}

type asked struct {
	key, end string
	from     int64
}

type followed struct {
	asked
	seen int64 // all its changes up to here have come
	last int64 // the revision of its last change
}

func (c *client) follow(conn *connection) {
	for {
		select {
		case <-conn.ctx.Done():
			return
		case <-time.After(c.pause()):
		}
		select {
		case <-conn.ctx.Done():
			return
		case r := <-conn.answers:
			c.take(r)
		}
	}
}

func (c *client) take(r *etcdserverpb.WatchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Created:
		w := &followed{asked: c.asked[len(c.watches)], seen: r.Header.Revision}
		if w.from > 0 {
			w.seen = w.from - 1
		}
		c.watches[r.WatchId] = w
	case r.Canceled:
		c.t.Errorf("watch %d was ended: %s", r.WatchId, r.CancelReason)
	case r.WatchId == clientv3.InvalidWatchID:
		c.told++
		for _, w := range c.watches {
			c.progress(w, r.Header.Revision)
		}
	case len(r.Events) == 0:
		c.told++
		c.progress(c.watches[r.WatchId], r.Header.Revision)
	default:
		w := c.watches[r.WatchId]
		for _, e := range r.Events {
			c.reaches(w, e.Kv.ModRevision-1)
			if !w.wants(string(e.Kv.Key)) || e.Kv.ModRevision <= w.seen {
				c.t.Errorf("a watch of %v was sent %s of revision %d after %d", w.asked, e.Kv.Key, e.Kv.ModRevision, w.seen)
			}
			w.seen = e.Kv.ModRevision
			w.last = w.seen
		}
		c.reaches(w, r.Header.Revision)
	}
}

func (a asked) wants(key string) bool {
	return a.key == "\x00" || a.key == key || a.end != "" && key >= a.key && key < a.end
}

// progress reports an error if a watch is told of a revision from before its last change, or too early.
func (c *client) progress(w *followed, revision int64) {
	if revision < w.last {
		c.t.Errorf("a watch of %v is told of revision %d after a change of %d", w.asked, revision, w.last)
	}
	c.reaches(w, revision)
}

// reaches reports an error if a watch was not sent all its changes up to a revision.
func (c *client) reaches(w *followed, revision int64) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for r := w.seen + 1; r <= min(revision, int64(len(c.log.changes))); r++ {
		if w.wants(c.log.changes[r-1].KV.Key) {
			c.t.Errorf("a watch of %v is told of revision %d, and was not sent %d", w.asked, revision, r)
		}
	}
	w.seen = max(w.seen, revision)
}

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
