package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// reading is what one read has shown: a list or a page of one, a count, or one key.
type reading struct {
	called, returned int64
	asked            int64 // the revision that it asked for; 0 for the latest
	revision         int64 // that of the answer
	first, end       int   // it asks for the keys from first to end, without end
	limit            int   // 0 for none
	keys             []int // in the order in which they are shown
	entries          [keys]entry
	count            int64 // unknown if the answer has none
	more             bool
	counts           bool // it asks for the count alone
}

const unknown = -1

func (r reading) String() string {
	asked := "the latest revision"
	if r.asked > 0 {
		asked = fmt.Sprintf("revision %d", r.asked)
	}
	what := "keys"
	if r.counts {
		what = "number of keys"
	}
	return fmt.Sprintf("reading the %s from %d to %d at %s, limit %d, at %d–%d: revision %d, shows %v of %v, count %d, more %t",
		what, r.first, r.end, asked, r.limit, r.called, r.returned, r.revision, r.keys, r.entries, r.count, r.more)
}

// at is the revision whose state it shows.
func (r reading) at() int64 {
	if r.asked > 0 {
		return r.asked
	}
	return r.revision
}

// check holds a read to the state of its revision. If writes are given, it may lack changes that were not committed yet (kine#676),
// which are returned.
func (r reading) check(all []change, writes flights) (lacks []change, err error) {
	if r.revision < r.asked {
		return nil, fmt.Errorf("%s: the answer has a revision before the one asked for", r)
	}
	want := stateAt(all, r.at())
	var missing []change // committed perhaps, perhaps not
	if writes != nil {
		for _, c := range all {
			if c.revision <= r.at() && c.key >= r.first && c.key < r.end && writes.early(c.revision, r.revision, r.called, r.returned) {
				missing = append(missing, c)
			}
		}
	}
	number := int64(0)
	for k := r.first; k < r.end; k++ {
		if want[k] != (entry{}) {
			number++
		}
	}
	if off := r.count - number; r.count != unknown && (off > int64(len(missing)) || -off > int64(len(missing))) {
		return nil, fmt.Errorf("%s: the count should be %d", r, number)
	}
	if r.counts {
		return nil, nil
	}
	end := r.end
	if r.more {
		if len(r.keys) != r.limit || r.limit == 0 {
			return nil, fmt.Errorf("%s: there is more, and the limit is not reached", r)
		}
		end = r.keys[len(r.keys)-1] + 1
	}
	if r.count != unknown && len(missing) == 0 && r.more != (r.count > int64(len(r.keys))) {
		return nil, fmt.Errorf("%s: the count does not fit", r)
	}
	if r.limit > 0 && len(r.keys) > r.limit {
		return nil, fmt.Errorf("%s: the limit is exceeded", r)
	}
	for i, k := range r.keys {
		if k < r.first || k >= r.end || i > 0 && k <= r.keys[i-1] {
			return nil, fmt.Errorf("%s: the keys are in no order", r)
		}
	}
	for k := r.first; k < end; k++ {
		if r.entries[k] == want[k] {
			continue
		}
		before, ok := undo(all, k, r.at(), r.entries[k], missing)
		if !ok {
			return nil, fmt.Errorf("%s: key %d should be %v", r, k, want[k])
		}
		lacks = append(lacks, before...)
	}
	return lacks, nil
}

// undo returns the changes of a key that would have to be missing up to a revision for it to be shown as it is; ok is false if one of
// them cannot be.
func undo(all []change, key int, revision int64, shown entry, missing []change) (lacks []change, ok bool) {
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		if c.key != key || c.revision > revision {
			continue
		}
		if c.now == shown {
			return lacks, true
		}
		found := false
		for _, m := range missing {
			found = found || m == c
		}
		if !found {
			return nil, false
		}
		lacks = append(lacks, c)
	}
	return lacks, shown == entry{}
}

// readingsOf returns the users' reads.
func readingsOf(all []porcupine.Operation) (readings []reading) {
	for _, o := range all {
		in, out := o.Input.(asked), o.Output.(answered)
		if in.verb.writes() {
			continue
		}
		r := reading{called: o.Call, returned: o.Return, revision: out.revision, first: 0, end: keys, entries: out.shown, count: unknown}
		if in.verb == get {
			r.first, r.end = in.key, in.key+1
		}
		for k, e := range out.shown {
			if e != (entry{}) {
				r.keys = append(r.keys, k)
			}
		}
		readings = append(readings, r)
	}
	return readings
}

// reads are those of all readers. They may be recorded concurrently.
type reads struct {
	mu      sync.Mutex // protects what follows
	all     []reading
	pages   int     // that were read after a first one
	refused []int64 // the revisions of reads that were refused as compacted
	failed  []error // of the others
}

// reader reads lists in all forms that API servers use, at the latest revision and at old ones.
type reader struct {
	client *clientv3.Client
	record *record
	reads  *reads
	r      *rand.Rand
	latest int64 // that it has seen
}

// act reads a list, all of its pages if it has some, and leaves the store to others for a moment.
func (r *reader) act(ctx context.Context) {
	defer wait(ctx, 3*time.Millisecond)
	next := reading{first: r.r.IntN(2), end: keys, count: unknown}
	if r.latest > 0 && r.r.IntN(2) == 0 {
		next.asked = max(1, r.latest-int64(r.r.IntN(80)))
	}
	streamed := false
	switch r.r.IntN(6) {
	case 0:
		next.counts = true
	case 1:
		streamed = true
	case 2, 3, 4:
		next.limit = 1 + r.r.IntN(keys-1)
	default: // the whole list
	}
	key := keyName(next.first)
	for page := 0; ; page++ {
		got, err := r.read(ctx, key, next, streamed)
		r.reads.mu.Lock()
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			r.reads.refused = append(r.reads.refused, next.asked)
		case err != nil:
			r.reads.failed = append(r.reads.failed, fmt.Errorf("%s: %w", next, err))
		default:
			r.reads.all = append(r.reads.all, got)
			if page > 0 {
				r.reads.pages++
			}
		}
		r.reads.mu.Unlock()
		if err != nil {
			return
		}
		r.latest = max(r.latest, got.revision)
		if !got.more || len(got.keys) == 0 {
			return
		}
		last := got.keys[len(got.keys)-1]
		next.asked, next.first, key = got.at(), last+1, keyName(last)+"\x00"
	}
}

// read makes one call, for the keys from key on.
func (r *reader) read(ctx context.Context, key string, next reading, streamed bool) (reading, error) {
	options := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithRev(next.asked), clientv3.WithLimit(int64(next.limit))}
	if next.counts {
		options = append(options, clientv3.WithCountOnly())
	}
	next.called = r.record.now()
	var answer *clientv3.GetResponse
	var err error
	if streamed {
		var stream clientv3.GetStreamChan
		if stream, err = r.client.GetStream(ctx, key, options...); err == nil {
			answer, err = clientv3.GetStreamToGetResponse(stream)
		}
	} else {
		answer, err = r.client.Get(ctx, key, options...)
	}
	next.returned = r.record.now()
	if err != nil {
		return next, err
	}
	next.revision, next.more = answer.Header.GetRevision(), answer.More
	if !streamed {
		next.count = answer.Count
	}
	return next, next.show(answer.Kvs)
}

func (r *reading) show(kvs []*mvccpb.KeyValue) (err error) {
	for _, kv := range kvs {
		k, err := keyOf(kv.Key)
		if err != nil {
			return err
		}
		r.keys = append(r.keys, k)
	}
	r.entries, err = entriesOf(kvs)
	return err
}
