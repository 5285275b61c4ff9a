package watch

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch is one watch of a stream.
type watch struct {
	stream   *stream
	id       int64
	key, end string // as in Log.After
	progress bool   // it is told how far the log is
	ctx      context.Context
	cancel   context.CancelFunc

	// sent: its changes up to this revision have been sent, or wait in the stream. It gets none of before.
	sent int64
	// A live watch is handed changes as they come. Any other has a goroutine that reads what it misses; while that is joining, the
	// changes that come are kept for it.
	live, joining bool
	kept          []*mvccpb.Event
	ended         bool

	page int // how many changes are read next, while it misses some

	unsent, unsentBytes int                         // how many changes wait in the stream, and their size
	last                *etcdserverpb.WatchResponse // with the last of these; nil if nothing can be added to it
	told                int64                       // the revision of its last response
	spoken              bool                        // since the last tick
}

func (w *watch) wants(e *server.Event) bool {
	return e.InRange(w.key, w.end) && e.KV.ModRevision > w.sent
}

// stream is the watches of one call, whose responses go through one connection in one order.
type stream struct {
	hub     *Hub
	ws      etcdserverpb.Watch_WatchServer
	running sync.WaitGroup
	wake    chan struct{} // holds one element if queue may be filled

	watches map[int64]*watch
	nextID  int64
	queue   []*etcdserverpb.WatchResponse
}

// Serve serves a call until its client or its context ends it.
func (h *Hub) Serve(ws etcdserverpb.Watch_WatchServer) error {
	ctx, cancel := context.WithCancel(ws.Context())
	s := &stream{hub: h, ws: ws, wake: make(chan struct{}, 1), watches: map[int64]*watch{}, nextID: 1}
	defer s.running.Wait()
	defer s.end()
	defer cancel()
	s.running.Go(func() { s.deliver(ctx) })
	for {
		r, err := ws.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case r.GetCreateRequest() != nil:
			s.create(ctx, r.GetCreateRequest())
		case r.GetCancelRequest() != nil:
			s.cancel(r.GetCancelRequest().WatchId)
		case r.GetProgressRequest() != nil:
			s.tellProgress()
		}
	}
}

// create begins a watch. It refuses what kine refuses: numbers that the client gives.
func (s *stream) create(ctx context.Context, r *etcdserverpb.WatchCreateRequest) {
	h := s.hub
	w := &watch{stream: s, key: string(r.Key), end: string(r.RangeEnd), progress: r.ProgressNotify, sent: r.StartRevision - 1}
	var refused error
	switch {
	case r.WatchId != clientv3.AutoWatchID:
		refused = server.ErrInvalidWatch
	case r.StartRevision < 0:
		refused = server.ErrCompacted
	case r.StartRevision == 0:
		w.sent, refused = h.log.CurrentRevision(ctx)
	}
	if w.key == "\x00" && w.end == "\x00" {
		w.key, w.end = "", "" // all keys
	}
	if w.key == compactRevision {
		w.key = compactRevisionInKine
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if refused != nil {
		s.add(&etcdserverpb.WatchResponse{WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true, CancelReason: refused.Error()}, h.at)
		return
	}
	if r.StartRevision == 0 { // from the revision on that the answer names
		w.sent = max(w.sent, h.at)
	}
	w.id, s.nextID = s.nextID, s.nextID+1
	w.ctx, w.cancel = context.WithCancel(ctx)
	s.watches[w.id] = w
	h.watches[w] = struct{}{}
	s.add(&etcdserverpb.WatchResponse{WatchId: w.id, Created: true}, max(h.at, w.sent))
	w.live = true // but it may miss something
	h.fallBehind(w)
}

func (s *stream) cancel(id int64) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if w := s.watches[id]; w != nil {
		s.remove(w)
		s.add(&etcdserverpb.WatchResponse{WatchId: id, Canceled: true}, s.hub.at)
	}
}

// refuse ends a watch that cannot be served. It gives up the hub's lock meanwhile.
func (h *Hub) refuse(w *watch, err error) {
	r := &etcdserverpb.WatchResponse{WatchId: w.id, Canceled: true, CancelReason: err.Error()}
	if errors.Is(err, server.ErrCompacted) {
		h.mu.Unlock()
		compacted, err := h.log.CompactRevision(w.ctx)
		h.mu.Lock()
		if err == nil {
			r.CompactRevision = compacted
		}
	}
	if w.ended {
		return
	}
	w.stream.remove(w)
	w.stream.add(r, h.at)
}

func (s *stream) remove(w *watch) {
	w.ended, w.live, w.joining, w.kept = true, false, false, nil
	w.cancel()
	delete(s.watches, w.id)
	delete(s.hub.watches, w)
	s.hub.changed.Broadcast()
}

// end ends all watches.
func (s *stream) end() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, w := range s.watches {
		s.remove(w)
	}
}

// tellProgress answers a client that asks how far its watches are. It says nothing if one of them is behind, as etcd does, or has read
// ahead of the hub, so that no revision comes after a newer one: the client asks again.
func (s *stream) tellProgress() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range s.watches {
		if !w.live || w.told > h.at {
			return
		}
	}
	for _, w := range s.watches {
		w.last = nil // nothing newer comes before this progress
		w.told, w.spoken = h.at, true
	}
	s.add(&etcdserverpb.WatchResponse{WatchId: clientv3.InvalidWatchID}, h.at)
}

// tick tells the watches that were sent nothing since the last tick how far they are.
func (s *stream) tick() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range s.watches {
		if w.progress && w.live && !w.spoken && w.told < h.at {
			w.told = h.at
			s.add(&etcdserverpb.WatchResponse{WatchId: w.id}, h.at)
		}
		w.spoken = false
	}
}

// send queues changes for a watch, which are those up to its revision sent.
func (s *stream) send(w *watch, events []*mvccpb.Event) {
	if len(events) == 0 {
		return
	}
	w.unsent += len(events)
	w.unsentBytes += sizeOf(events)
	w.told, w.spoken = w.sent, true
	if w.last != nil {
		w.last.Events = append(w.last.Events, events...)
		w.last.Header.Revision = w.sent
		return
	}
	w.last = &etcdserverpb.WatchResponse{WatchId: w.id, Events: events}
	s.add(w.last, w.sent)
}

// add queues a response, which says that the log is at a revision.
func (s *stream) add(r *etcdserverpb.WatchResponse, revision int64) {
	r.Header = &etcdserverpb.ResponseHeader{Revision: revision}
	s.queue = append(s.queue, r)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver sends what is queued.
func (s *stream) deliver(ctx context.Context) {
	quiet := time.NewTicker(s.hub.quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-quiet.C:
			s.tick()
		case <-s.wake:
		}
		for _, r := range s.take() {
			if s.ws.Send(r) != nil {
				return // the call has ended, which Serve notices
			}
		}
	}
}

// take empties the queue.
func (s *stream) take() []*etcdserverpb.WatchResponse {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := s.queue
	s.queue = nil
	late := false
	for _, w := range s.watches {
		w.unsent, w.unsentBytes, w.last = 0, 0, nil
		late = late || !w.live
	}
	if late {
		h.changed.Broadcast()
	}
	return queue
}
