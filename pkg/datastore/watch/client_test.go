package watch

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

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
