package histories

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

	pieces    []piece
	compacted bool // refused, as its beginning was compacted
	err       error
	ended     chan struct{}
	shown     atomic.Int64 // the revision of the last change that it has shown
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
	key, options := prefix, []clientv3.OpOption{clientv3.WithRev(w.from), clientv3.WithPrevKV(), clientv3.WithProgressNotify()}
	missing := keys
	if w.key == every {
		options = append(options, clientv3.WithPrefix())
	} else {
		key, missing = keyName(w.key), 1
	}
	for answer := range c.Watch(ctx, key, options...) {
		if answer.CompactRevision > 0 {
			w.compacted = true
			return
		}
		if err := answer.Err(); err != nil {
			w.err = err
			return
		}
		p := piece{}
		if answer.IsProgressNotify() {
			p.progress = answer.Header.Revision
		}
		for _, e := range answer.Events {
			c, err := changeOf(e)
			if err != nil {
				w.err = err
				return
			}
			p.changes = append(p.changes, c)
			w.shown.Store(c.revision)
			if c.now.value == last {
				missing--
			}
		}
		w.pieces = append(w.pieces, p)
		if missing == 0 {
			return
		}
		time.Sleep(w.slow)
	}
	w.err = fmt.Errorf("%d keys never came to their last value: %w", missing, context.Cause(ctx))
}

func changeOf(e *clientv3.Event) (c change, err error) {
	if c.key, err = strconv.Atoi(strings.TrimPrefix(string(e.Kv.Key), prefix)); err != nil {
		return c, fmt.Errorf("an event of the key %s", e.Kv.Key)
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

// check holds what a watch has shown to all changes that there were. A watch may be refused if its beginning was compacted.
func (w *watcher) check(all []change, compacted int64) error {
	if w.err != nil {
		return w.err
	}
	if w.compacted {
		if w.from > compacted {
			return fmt.Errorf("it is refused as compacted from %d on, and only %d was compacted", w.from, compacted)
		}
		return nil
	}
	var want, got []change
	for _, c := range all {
		if c.revision >= w.from && (w.key == every || w.key == c.key) {
			want = append(want, c)
		}
	}
	for _, p := range w.pieces {
		got = append(got, p.changes...)
	}
	for i := range min(len(want), len(got)) {
		g := got[i]
		if g.was == (entry{}) && g.revision <= compacted {
			g.was = want[i].was // the one before may have been compacted
		}
		if g != want[i] {
			return fmt.Errorf("change %d of %d is %+v, and should be %+v", i+1, len(want), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("it shows %d changes of %d", len(got), len(want))
	}
	return w.checkPieces(want)
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
