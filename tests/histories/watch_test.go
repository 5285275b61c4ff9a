package histories

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// change is one change of a key; a key that is removed has no entry afterwards.
type change struct {
	revision int64
	key      int
	now, was entry
}

// piece is one answer of a watch: changes, or the promise that all changes up to a revision have been shown.
type piece struct {
	changes  []change
	progress int64 // 0 for none
}

// watcher is one watch, from its first revision on.
type watcher struct {
	name string
	from int64
	key  int // every for all
	// slow is how long it waits before it takes the next answer.
	slow time.Duration
	// direct is the connection to a server's socket if etcd's client is not to be between; see runDirectly.
	direct *connection

	pieces    []piece
	starts    []start // of a direct watch: its beginnings
	compacted bool    // refused, as its beginning, or where it had to go on, was compacted
	err       error

	begun, ended chan struct{}
	watching     atomic.Bool  // of a direct watch: a server has said that it began, and has not ended it
	shown        atomic.Int64 // the revision of the last change that it has shown
	seen         atomic.Int64 // how many changes it has shown
}

// stream is the context of a watch with a stream of its own, as each cache of the API server has. Whoever asks for progress
// with it asks this watch alone.
func (w *watcher) stream(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "watch", w.name)
}

const every = -1

// run watches until it has seen all keys that it watches at the value last, or ctx ends.
func (w *watcher) run(ctx context.Context, c *clientv3.Client, last int64) {
	defer close(w.ended)
	ctx, cancel := context.WithCancel(w.stream(ctx))
	defer cancel()
	options := []clientv3.OpOption{clientv3.WithRev(w.from), clientv3.WithPrevKV(), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify()}
	key, end := w.keys()
	if end != "" {
		options = append(options, clientv3.WithRange(end))
	}
	missing := w.keysToEnd()
	for answer := range c.Watch(ctx, key, options...) {
		if answer.CompactRevision > 0 {
			w.compacted = true
			return
		}
		if err := answer.Err(); err != nil {
			w.err = err
			return
		}
		if answer.Created {
			close(w.begun)
			continue
		}
		n, err := w.take(answer.Header.Revision, answer.Events, last)
		if err != nil {
			w.err = err
			return
		}
		if missing -= n; missing == 0 {
			return
		}
		time.Sleep(w.slow)
	}
	w.err = fmt.Errorf("%d keys never came to their last value: %w", missing, context.Cause(ctx))
}

// keys returns the range of keys that it watches.
func (w *watcher) keys() (key, end string) {
	if w.key == every {
		return prefix, clientv3.GetPrefixRangeEnd(prefix)
	}
	return keyName(w.key), ""
}

// keysToEnd is how many keys have to come to their last value.
func (w *watcher) keysToEnd() int {
	if w.key == every {
		return keys
	}
	return 1
}

// take keeps an answer, and returns how many of its changes are to the value last. Without changes it promises that all have been shown.
func (w *watcher) take(revision int64, events []*clientv3.Event, last int64) (n int, err error) {
	var p piece
	if len(events) == 0 {
		p.progress = revision
	}
	for _, e := range events {
		c, err := changeOf(e)
		if err != nil {
			return n, err
		}
		p.changes = append(p.changes, c)
		w.shown.Store(c.revision)
		w.seen.Add(1)
		if c.now.value == last {
			n++
		}
	}
	w.pieces = append(w.pieces, p)
	return n, nil
}

func changeOf(e *clientv3.Event) (c change, err error) {
	if c.key, err = keyOf(e.Kv.Key); err != nil {
		return c, err
	}
	c.revision = e.Kv.ModRevision
	if e.Type == mvccpb.PUT {
		c.now, err = entryOf(e.Kv)
	}
	if err == nil && e.PrevKv != nil {
		c.was, err = entryOf(e.PrevKv)
	}
	return c, err
}

func entryOf(kv *mvccpb.KeyValue) (entry, error) {
	v, err := strconv.ParseInt(string(kv.Value), 10, 64)
	return entry{kv.ModRevision, v}, err
}

// furthestBehind is how many changes a watch of a shared database may have to catch up with. See docs/datastore.md.
const furthestBehind = 5000

// check holds what a watch has shown to all changes that there were. A watch may be refused if its beginning was compacted. If writes
// are given, the database is shared: the watch may also be refused if it is too far behind, and may lack changes that were not committed
// when it began (kine#676), which are returned.
func (w *watcher) check(all []change, compacted int64, writes flights) (lacks []change, err error) {
	if w.err != nil {
		return nil, w.err
	}
	var got []change
	next := w.from
	for _, p := range w.pieces {
		got = append(got, p.changes...)
		next = max(next, p.progress+1)
	}
	if len(got) > 0 {
		next = max(next, got[len(got)-1].revision+1)
	}
	far := writes != nil && len(all) > 0 && next < all[len(all)-1].revision-furthestBehind
	if w.compacted && next > compacted && !far {
		return nil, fmt.Errorf("it is refused as compacted from %d on, and only %d was compacted", next, compacted)
	}
	var want []change
	for _, c := range all {
		if c.revision >= w.from && (w.key == every || w.key == c.key) && (!w.compacted || c.revision < next) {
			want = append(want, c)
		}
	}
	var due []change // of want, what it does not lack with a reason
	for i, c := range want {
		n := len(due)
		if n == len(got) || got[n].revision != c.revision {
			if w.mayLack(c, writes) {
				lacks = append(lacks, c)
				continue
			}
			if n == len(got) {
				return lacks, fmt.Errorf("it shows %d changes of %d, and ends before %+v", n, len(want), c)
			}
			return lacks, fmt.Errorf("change %d of %d is %+v, and should be %+v", i+1, len(want), got[n], c)
		}
		g := got[n]
		if g.was == (entry{}) && g.revision <= compacted {
			g.was = c.was // the one before may have been compacted
		}
		if g != c {
			return lacks, fmt.Errorf("change %d of %d is %+v, and should be %+v", i+1, len(want), got[n], c)
		}
		due = append(due, c)
	}
	if len(got) > len(due) {
		return lacks, fmt.Errorf("it shows %d changes of %d, and %+v should not be there", len(got), len(want), got[len(due)])
	}
	return lacks, w.checkPieces(due)
}

// mayLack is whether a change was not committed yet when the watch began, or began again, at a newer revision.
func (w *watcher) mayLack(c change, writes flights) bool {
	for _, s := range slices.Backward(w.starts) {
		if s.from <= c.revision {
			return writes.early(c.revision, s.revision, s.called, s.created)
		}
	}
	return false
}

// checkPieces holds the promises to what was shown before and after.
func (w *watcher) checkPieces(want []change) error {
	shown := 0
	for _, p := range w.pieces {
		shown += len(p.changes)
		if p.progress == 0 {
			continue
		}
		due := slices.IndexFunc(want, func(c change) bool { return c.revision > p.progress })
		if due < 0 {
			due = len(want)
		}
		if shown != due {
			return fmt.Errorf("it says that all is shown up to revision %d after %d changes, and there are %d", p.progress, shown, due)
		}
	}
	return nil
}

// checkChanges holds all changes, as one watch has shown them, to what clients were told: each change is somebody's write, in
// the order of revisions, each after the one before; and each acknowledged write is there.
func checkChanges(all []change, r *record) error {
	state := [keys]entry{}
	last := int64(0)
	byRevision := map[int64]change{}
	for _, c := range all {
		if c.revision <= last {
			return fmt.Errorf("revision %d comes after %d", c.revision, last)
		}
		if c.was != state[c.key] {
			return fmt.Errorf("before %+v the key was %+v", c, state[c.key])
		}
		if c.now.value == 0 && !r.removes(c) {
			return fmt.Errorf("nobody removed %+v", c)
		}
		last, state[c.key], byRevision[c.revision] = c.revision, c.now, c
	}
	written := map[int64]bool{} // values
	for _, o := range slices.Concat(r.all, r.lost) {
		in, out := o.Input.(asked), o.Output.(answered)
		written[in.value] = true
		if !out.done {
			continue
		}
		c, there := byRevision[out.revision]
		if !there || c.key != in.key || c.now.value != map[bool]int64{false: in.value}[in.verb == remove] {
			return fmt.Errorf("%s was acknowledged (%s), and no watch shows it", in, out)
		}
	}
	for _, c := range all {
		if c.now.value != 0 && !written[c.now.value] {
			return fmt.Errorf("nobody wrote %+v", c)
		}
	}
	return nil
}

// stateAt returns the keys at a revision.
func stateAt(all []change, revision int64) (s [keys]entry) {
	for _, c := range all {
		if c.revision <= revision {
			s[c.key] = c.now
		}
	}
	return s
}
