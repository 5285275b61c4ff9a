package watch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/server"
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
