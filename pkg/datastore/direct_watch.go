package datastore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// watcher watches through a server in this process. etcd's own client takes everything that a server sends and keeps it until the caller
// takes it, without a bound. Here the server waits for the caller. It keeps a bounded number of changes for a watch that waits, and reads
// the others from the store once the watch goes on: package watch for SQLite, etcd's store of watches for an etcd.
//
// Each watch is a call of its own, so that one that nobody reads holds up no other. A call ends only with its watch: nothing has to be
// resumed, as after a lost connection.
type watcher struct {
	server etcdserverpb.WatchServer

	running sync.WaitGroup // the calls
	mu      sync.Mutex     // guards what follows
	closed  bool
	calls   map[*watchCall]struct{}
}

var _ clientv3.Watcher = (*watcher)(nil)

func newWatcher(server etcdserverpb.WatchServer) *watcher {
	return &watcher{server: server, calls: map[*watchCall]struct{}{}}
}

// Watch returns when the server has begun the watch, as etcd's client does.
func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	c := &watchCall{
		group:       progressGroup(ctx),
		tellCreated: op.IsCreatedNotify(),
		requests:    make(chan *etcdserverpb.WatchRequest, 1),
		created:     make(chan struct{}),
		responses:   make(chan clientv3.WatchResponse),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.requests <- createRequest(op)
	if !w.start(c) {
		c.cancel()
		close(c.responses)
	}
	select {
	case <-c.created:
	case <-c.ctx.Done():
	}
	return c.responses
}

// createRequest leaves out that large responses may be sent in fragments: no message is too large in process.
func createRequest(op clientv3.Op) *etcdserverpb.WatchRequest {
	var filters []etcdserverpb.WatchCreateRequest_FilterType
	if op.IsFilterPut() {
		filters = append(filters, etcdserverpb.WatchCreateRequest_NOPUT)
	}
	if op.IsFilterDelete() {
		filters = append(filters, etcdserverpb.WatchCreateRequest_NODELETE)
	}
	return &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{
		Key: op.KeyBytes(), RangeEnd: op.RangeBytes(), StartRevision: op.Rev(),
		ProgressNotify: op.IsProgressNotify(), PrevKv: op.IsPrevKV(), Filters: filters,
	}}}
}

// start begins a call, unless the watcher is closed.
func (w *watcher) start(c *watchCall) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.calls[c] = struct{}{}
	w.running.Go(func() {
		defer close(c.responses) // nobody sends any more
		_ = w.server.Watch(c)    // what ends a watch is a response
		c.cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.calls, c)
	})
	return true
}

// RequestProgress asks for the progress of all watches whose contexts have the same metadata, as etcd's client does: the API server sets
// the watches of its caches apart from those of its clients, which have not asked for it.
func (w *watcher) RequestProgress(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errors.New("the client is closed")
	}
	var calls []*watchCall
	for c := range w.calls {
		if c.group == progressGroup(ctx) {
			calls = append(calls, c)
		}
	}
	w.mu.Unlock()
	for _, c := range calls {
		select {
		case c.requests <- &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}}:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func progressGroup(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return fmt.Sprint(map[string][]string(md)) // in the order of the keys
}

// Close ends all watches and returns when the server has ended them.
func (w *watcher) Close() error {
	w.mu.Lock()
	w.closed = true
	for c := range w.calls {
		c.cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// watchCall is the server's end of a call with one watch. The methods that are not here are for metadata, which nobody uses.
type watchCall struct {
	grpc.ServerStream
	ctx         context.Context
	cancel      context.CancelFunc
	group       string // see RequestProgress
	tellCreated bool   // the caller wants the response that the watch has begun
	requests    chan *etcdserverpb.WatchRequest
	created     chan struct{} // closed when the server has begun the watch or refused it
	responses   chan clientv3.WatchResponse
}

func (c *watchCall) Context() context.Context { return c.ctx }

func (c *watchCall) Recv() (*etcdserverpb.WatchRequest, error) {
	select {
	case r := <-c.requests:
		return r, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// Send returns when the caller has taken the response. A watch that the server cancels without naming a compacted revision just ends, as
// with etcd's client: its caller watches again from where it was.
func (c *watchCall) Send(r *etcdserverpb.WatchResponse) error {
	tell := true
	switch {
	case r.Created:
		close(c.created)
		tell = c.tellCreated || r.Canceled
	case r.Canceled:
		tell = r.CompactRevision != 0
	}
	if tell {
		select {
		case c.responses <- toClient(r):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	if r.Canceled {
		c.cancel()
	}
	return nil
}

func toClient(r *etcdserverpb.WatchResponse) clientv3.WatchResponse {
	return clientv3.WatchResponse{
		Header: r.Header, Events: r.Events, CompactRevision: r.CompactRevision,
		Created: r.Created, Canceled: r.Canceled, CancelReason: r.CancelReason,
	}
}
