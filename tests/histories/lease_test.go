package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// above is the prefix of all keys that a test writes, leasedPrefix that of those with a lease: on SQLite, Events may expire, and objects not.
const (
	above        = "/registry/"
	leasedPrefix = above + "events/leased/"
)

// leasedFor is what leases are asked for; an etcd may give longer ones.
const leasedFor = time.Second

// leasedWrite is an acknowledged write of a key with a lease: it must stay until then, or until it is written again.
type leasedWrite struct {
	key              string
	revision         int64
	called, returned int64
	until            int64
}

// leasedChange is a change of such a key, and when a watch has shown it.
type leasedChange struct {
	key      string
	revision int64
	put      bool
	seen     int64
}

// leasedRead is a list of them.
type leasedRead struct {
	called, returned, revision int64
	keys                       map[string]bool
}

// leases are what a client has done with keys that expire, as events of an API server do, and what a watch has shown of them.
type leases struct {
	client *clientv3.Client
	record *record
	r      *rand.Rand

	writes []leasedWrite
	lost   map[string]bool // the keys of which a write was not answered
	reads  []leasedRead
	err    error

	mu      sync.Mutex // protects what follows
	changes []leasedChange
	there   map[string]bool // after these
	shown   int64           // the revision of the latest answer
	failed  error

	begun, ended chan struct{} // closed when the watch has
}

// watch begins the watch, which ends with ctx.
func (l *leases) watch(ctx context.Context, from int64) {
	l.lost, l.there, l.begun, l.ended = map[string]bool{}, map[string]bool{}, make(chan struct{}), make(chan struct{})
	answers := l.client.Watch(ctx, above, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	go func() {
		defer close(l.ended)
		for answer := range answers {
			l.take(answer)
		}
	}()
}

func (l *leases) take(answer clientv3.WatchResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := answer.Err(); err != nil {
		l.failed = fmt.Errorf("the watch of keys with leases, after revision %d: %w", l.shown, err)
		return
	}
	if answer.Created {
		close(l.begun)
	}
	for _, e := range answer.Events {
		key, leased := strings.CutPrefix(string(e.Kv.Key), leasedPrefix)
		l.shown = e.Kv.ModRevision
		if !leased {
			continue
		}
		put := e.Type == mvccpb.PUT
		l.changes = append(l.changes, leasedChange{key, e.Kv.ModRevision, put, l.record.now()})
		if put {
			l.there[key] = true
		} else {
			delete(l.there, key)
		}
	}
}

// upTo is the revision up to which the watch has shown everything.
func (l *leases) upTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown
}

// act writes a key, sometimes once more, reads all, and leaves the store to others for a moment.
func (l *leases) act(ctx context.Context) {
	defer wait(ctx, 50*time.Millisecond)
	key := fmt.Sprintf("%06d", len(l.writes)+len(l.lost))
	revision := l.write(ctx, key, 0)
	if l.r.IntN(3) == 0 && revision > 0 {
		wait(ctx, time.Duration(l.r.Int64N(int64(leasedFor))))
		l.write(ctx, key, revision)
	}
	r := leasedRead{called: l.record.now(), keys: map[string]bool{}}
	answer, err := l.client.Get(ctx, leasedPrefix, clientv3.WithPrefix())
	if err != nil {
		return // it was killed
	}
	for _, kv := range answer.Kvs {
		r.keys[strings.TrimPrefix(string(kv.Key), leasedPrefix)] = true
	}
	r.returned, r.revision = l.record.now(), answer.Header.Revision
	l.reads = append(l.reads, r)
}

// write writes a key with a lease if it was last changed at a revision, and returns the new one; 0 if it did not.
func (l *leases) write(ctx context.Context, key string, revision int64) int64 {
	w := leasedWrite{key: key, called: l.record.now()}
	grant, err := l.client.Grant(ctx, int64(leasedFor/time.Second))
	if err != nil {
		return 0
	}
	w.until = w.called + grant.TTL*int64(time.Second)
	name := leasedPrefix + key
	txn := l.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", revision)).Then(clientv3.OpPut(name, key, clientv3.WithLease(grant.ID)))
	if revision > 0 {
		txn = txn.Else(clientv3.OpGet(name))
	}
	answer, err := txn.Commit()
	if err != nil {
		l.lost[key] = true
		return 0
	}
	if !answer.Succeeded {
		if revision == 0 {
			l.err = fmt.Errorf("the key %s was there before it was written", key)
		}
		return 0 // it has vanished
	}
	w.revision, w.returned = answer.Header.Revision, l.record.now()
	l.writes = append(l.writes, w)
	return w.revision
}

// await returns when all keys with leases have vanished.
func (l *leases) await(ctx context.Context) error {
	last := int64(0)
	for _, w := range l.writes {
		last = max(last, w.revision)
	}
	for {
		l.mu.Lock()
		there, shown, err := slices.Sorted(maps.Keys(l.there)), l.shown, l.failed
		l.mu.Unlock()
		if err != nil || len(there) == 0 && shown >= last {
			return err
		}
		if !wait(ctx, 20*time.Millisecond) {
			return fmt.Errorf("the keys %v never vanish; the watch has come to revision %d, the last write has %d", there, shown, last)
		}
	}
}

// check holds what was seen to what leases promise. If revisions may be given before the commit, what a list shows is only held to the
// times of leases.
func (l *leases) check(early bool) error {
	if l.err != nil {
		return l.err
	}
	written := map[int64]leasedWrite{}
	for _, w := range l.writes {
		written[w.revision] = w
	}
	there := map[string]int64{} // by key, the revision
	found := 0
	for _, c := range l.changes {
		w, known := written[c.revision]
		switch {
		case c.put && known && w.key == c.key:
			found++
			there[c.key] = c.revision
		case c.put && l.lost[c.key] && !known:
			there[c.key] = c.revision
		case c.put:
			return fmt.Errorf("nobody wrote %+v", c)
		case there[c.key] == 0:
			return fmt.Errorf("the key vanishes that is not there: %+v", c)
		default:
			if w, known := written[there[c.key]]; known && c.seen < w.until {
				return fmt.Errorf("the key vanishes before its time, %+v: %+v", w, c)
			}
			delete(there, c.key)
		}
	}
	if found != len(l.writes) {
		return fmt.Errorf("the watch shows %d writes of %d", found, len(l.writes))
	}
	if len(there) > 0 {
		return fmt.Errorf("the keys %v never vanish", slices.Sorted(maps.Keys(there)))
	}
	for _, r := range l.reads {
		if err := l.checkRead(r, early); err != nil {
			return err
		}
	}
	return nil
}

func (l *leases) checkRead(r leasedRead, early bool) error {
	for _, w := range l.writes {
		if r.called > w.returned && r.returned < w.until && !r.keys[w.key] {
			return fmt.Errorf("a list lacks a key before its time, %+v: %+v", w, r)
		}
	}
	if early {
		return nil
	}
	there := map[string]bool{}
	for _, c := range l.changes {
		if c.revision <= r.revision {
			there[c.key] = c.put
		}
	}
	maps.DeleteFunc(there, func(_ string, is bool) bool { return !is })
	if !maps.Equal(there, r.keys) {
		return fmt.Errorf("at revision %d there is %v, and should be %v", r.revision, slices.Sorted(maps.Keys(r.keys)), slices.Sorted(maps.Keys(there)))
	}
	return nil
}

// wait returns false if ctx ends before a time has passed.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
