// Package watch serves etcd's watches from a log of changes.
//
// kine has goroutines for each watch, wakes all of them for each change, and each then looks whether the change is of its keys. An
// API server has more than a hundred watches. Here one goroutine looks for all of them, and a change wakes only those that it is for.
//
// It keeps what etcd promises for watches (https://etcd.io/docs/v3.6/learning/api_guarantees/#watch-apis): the changes of a watch come in
// order, each comes once and none is left out, and a progress says that all changes up to its revision have been sent.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// pageSize is how many changes are read from the log at a time, and firstPage how many by a watch that begins to read: the size of
	// their values is not known yet.
	pageSize, firstPage = 200, 4
	// maxUnsent and maxUnsentBytes are how many changes may wait to be sent to a watch. A slower one reads from the log what it has missed.
	maxUnsent, maxUnsentBytes = 1000, 8 << 20
	// followAgainAfter is how long the hub waits when the log could not be followed any more.
	followAgainAfter = time.Second
)

// Log is what watches are served from. Its methods may be called concurrently.
type Log interface {
	// CurrentRevision returns the revision of the last change.
	CurrentRevision(ctx context.Context) (int64, error)
	// CompactRevision returns the revision before which changes may have been dropped.
	CompactRevision(ctx context.Context) (int64, error)
	// After returns in order the changes after a revision, limit of them at most: those of key; or, if end is not empty, of the
	// keys from key to end, without end; or, if key is empty, of all keys. The batch's revision is that of the log's last change. The
	// error is server.ErrCompacted if changes after the revision may have been dropped.
	After(ctx context.Context, key, end string, revision, limit int64) (server.EventBatch, error)
	// Watch returns a channel of all changes from now on, in order. It is closed at the end of ctx, and if it is read too slowly; then
	// changes may be missing before the last ones. It is nil if the log cannot be followed.
	Watch(ctx context.Context) <-chan server.EventBatch
}

// Hub hands the changes of a log to watches.
type Hub struct {
	log   Log
	quiet time.Duration

	mu        sync.Mutex // guards what follows and the variables of streams and watches
	changed   sync.Cond  // of what catchUp waits for
	following bool
	at        int64 // while following: the changes up to this revision have been handed out
	watches   map[*watch]struct{}
}

// NewHub returns a hub. It tells a watch that has asked for progress how far the log is, if that has gone on and the watch was sent
// nothing for the duration quiet.
func NewHub(log Log, quiet time.Duration) *Hub {
	h := &Hub{log: log, quiet: quiet, watches: map[*watch]struct{}{}}
	h.changed.L = &h.mu
	return h
}

// Run hands out changes until ctx ends. Call it once.
func (h *Hub) Run(ctx context.Context) {
	for {
		h.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(followAgainAfter):
		}
	}
}

// follow hands out changes until the log ends. Watches then read for themselves what they miss until it is followed again.
func (h *Hub) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := h.log.Watch(ctx)
	if changes == nil {
		return
	}
	at, err := h.log.CurrentRevision(ctx) // the changes after it come through the channel, which is older
	if err != nil {
		return
	}
	h.mu.Lock()
	h.following, h.at = true, at
	h.changed.Broadcast()
	h.mu.Unlock()
	for batch := range changes {
		h.hand(batch)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.following = false
	for w := range h.watches {
		h.fallBehind(w)
	}
}

// Told returns the revision up to which all watches have been told of changes, or have to read them; 0 while the log is not followed.
func (h *Hub) Told() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.following {
		return 0
	}
	return h.at
}

// hand gives changes to the watches that they are for.
func (h *Hub) hand(batch server.EventBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	batch = batch.After(h.at)
	// kine may leave changes out for a follower that is too slow, and hand it later ones before it cuts it off.
	whole := len(batch.Events) == 0 || batch.Events[0].KV.ModRevision == h.at+1
	h.at = max(h.at, batch.CurrentRev)
	converted := make([]*mvccpb.Event, len(batch.Events))
	for w := range h.watches {
		if !w.live && !w.joining {
			continue
		}
		var events []*mvccpb.Event
		for i, e := range batch.Events {
			if w.wants(e) {
				if converted[i] == nil {
					converted[i] = toEvent(e)
				}
				events = append(events, converted[i])
			}
		}
		switch {
		case !whole:
			h.fallBehind(w)
		case w.unsent+len(w.kept)+len(events) > maxUnsent || w.unsentBytes+sizeOf(w.kept)+sizeOf(events) > maxUnsentBytes:
			h.fallBehind(w)
		case w.joining:
			w.kept = append(w.kept, events...)
		default:
			w.sent = max(w.sent, h.at)
			w.stream.send(w, events)
		}
	}
}

// fallBehind has a watch read what it misses.
func (h *Hub) fallBehind(w *watch) {
	w.joining, w.kept = false, nil
	if w.live {
		w.live, w.page = false, firstPage
		w.stream.running.Go(func() { h.catchUp(w) })
	}
}

// catchUp reads from the log what a watch misses, one page whenever all that it has read is sent, until it can be handed what comes.
func (h *Hub) catchUp(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for !w.ended && (!h.following || w.unsent > 0) {
			h.changed.Wait()
		}
		if w.ended {
			return
		}
		if w.sent >= h.at {
			w.live = true
			return
		}
		w.joining = true
		after := max(w.sent, 1) // kine takes 0 for any revision; its first change is its own
		h.mu.Unlock()
		page, err := h.log.After(w.ctx, w.key, w.end, after, int64(w.page))
		h.mu.Lock()
		if w.ended {
			return
		}
		if err != nil {
			h.refuse(w, err)
			return
		}
		var events []*mvccpb.Event
		for _, e := range page.Events {
			if w.wants(e) {
				events = append(events, toEvent(e))
			}
		}
		if n := len(page.Events); n == w.page {
			w.sent = max(w.sent, page.Events[n-1].KV.ModRevision)
			w.page = nextPage(w.page, events)
		} else {
			w.sent = max(w.sent, page.CurrentRev)
			if w.joining { // what has been handed out meanwhile follows
				for _, e := range w.kept {
					if e.Kv.ModRevision > w.sent {
						events = append(events, e)
					}
				}
				w.sent, w.live = max(w.sent, h.at), true
			}
		}
		w.joining, w.kept = false, nil
		w.stream.send(w, events)
		if w.live {
			return
		}
	}
}

// nextPage returns how many changes are read after a page: as many as may wait if they are as large as those of the page, but at most
// twice as many as before.
func nextPage(page int, events []*mvccpb.Event) int {
	fits := maxUnsentBytes * len(events) / max(sizeOf(events), 1)
	return max(1, min(fits, 2*page, pageSize))
}

// sizeOf is how many bytes the changes have.
func sizeOf(events []*mvccpb.Event) int {
	bytes := 0
	for _, e := range events {
		bytes += len(e.Kv.GetKey()) + len(e.Kv.GetValue()) + len(e.PrevKv.GetKey()) + len(e.PrevKv.GetValue())
	}
	return bytes
}
