package histories

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// window is how many bytes a server may send to a direct watch that does not read: the least that gRPC has.
const window = 64 << 10

// connection is how a direct watch reaches a server.
type connection struct {
	endpoint string
	record   *record
	// final is the store's revision after all writes of the history; 0 before.
	final *atomic.Int64
	// hold is called once, when the watch has begun: until it returns, nothing is read.
	hold func(context.Context)
}

// start is a beginning of a direct watch.
type start struct {
	from            int64 // the first revision that it asks for
	called, created int64 // when it was asked for, and when the server had answered that it began
	revision        int64 // of that answer
}

// runDirectly is run without etcd's client, which reads all the time and begins a watch that broke off again without a word. It also
// ends when the server says that all changes of the history have been shown.
func (w *watcher) runDirectly(ctx context.Context, last int64) {
	defer close(w.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A server may send all that a watch has missed in one answer. etcd's client takes any size.
	conn, err := grpc.NewClient(w.direct.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		w.err = err
		return
	}
	defer func() { _ = conn.Close() }() // it has only read
	missing, next := w.keysToEnd(), w.from
	for ctx.Err() == nil {
		over := w.follow(ctx, etcdserverpb.NewWatchClient(conn), &missing, &next, last)
		if over || w.err != nil {
			return
		}
		wait(ctx, 10*time.Millisecond)
	}
	w.err = fmt.Errorf("%d keys never came to their last value: %w", missing, context.Cause(ctx))
}

// follow watches from a revision on until the watch is over, or is cut off or cancelled, and leaves in next where it goes on then.
func (w *watcher) follow(ctx context.Context, c etcdserverpb.WatchClient, missing *int, next *int64, last int64) (over bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.watching.Store(false)
	began := start{from: *next, called: w.direct.record.now()}
	s, err := c.Watch(ctx, grpc.WaitForReady(true))
	if err != nil {
		return false
	}
	key, end := w.keys()
	err = s.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{
		Key: []byte(key), RangeEnd: []byte(end), StartRevision: *next, PrevKv: true, ProgressNotify: true,
	}}})
	if err != nil {
		return false
	}
	for {
		r, err := s.Recv()
		switch {
		case status.Code(err) == codes.ResourceExhausted: // it would be again
			w.err = err
			return true
		case err != nil:
			return false // killed
		case r.Created && !r.Canceled:
			began.created, began.revision = w.direct.record.now(), r.Header.Revision
			w.starts = append(w.starts, began)
			w.watching.Store(true)
			if !closed(w.begun) {
				close(w.begun)
			}
			if hold := w.direct.hold; hold != nil {
				w.direct.hold = nil
				hold(ctx)
			}
			go askForProgress(ctx, s)
			continue
		case r.CompactRevision > 0:
			w.compacted = true
			return true
		case r.Canceled:
			return false // it was too slow
		}
		var events []*clientv3.Event
		for _, e := range r.Events {
			events = append(events, (*clientv3.Event)(e))
		}
		n, err := w.take(r.Header.Revision, events, last)
		if err != nil {
			w.err = err
			return true
		}
		if len(events) > 0 {
			*next = max(*next, events[len(events)-1].Kv.ModRevision+1)
		} else {
			*next = max(*next, r.Header.Revision+1)
		}
		*missing -= n
		final := w.direct.final.Load()
		if *missing == 0 || final > 0 && *next > final {
			return true
		}
		time.Sleep(w.slow)
	}
}

// askForProgress asks as an API server does that wants to know whether its cache is as new as the store.
func askForProgress(ctx context.Context, s etcdserverpb.Watch_WatchClient) {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if s.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}}) != nil {
			return // it has ended
		}
	}
}
