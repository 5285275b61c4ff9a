package histories

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// record is the operations of all clients. It may be used concurrently.
type record struct {
	began time.Time
	mu    sync.Mutex // protects what follows
	all   []porcupine.Operation
	lost  []porcupine.Operation // writes without an answer
	value int64
}

// nextValue returns a value that nobody has written.
func (r *record) nextValue() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value++
	return r.value
}

// now is the time since the record began, in nanoseconds.
func (r *record) now() int64 { return time.Since(r.began).Nanoseconds() }

// do records an operation. One that fails may have taken effect, now or later.
func (r *record) do(client int, in asked, call func() (answered, error)) (answered, error) {
	called := r.now()
	out, err := call()
	o := porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: r.now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.all = append(r.all, o)
	case in.verb.writes():
		r.lost = append(r.lost, o)
	}
	return out, err
}

// whole returns the history. Which of the writes without an answer have taken effect, the changes say: a value is written
// once, and a revision of a key removed once. If several have asked for one removal, it counts as the first one's, which
// may have happened at any time at which another's may.
func (r *record) whole(changes []change) []porcupine.Operation {
	all := r.all
	taken := map[int64]bool{}
	for _, o := range slices.SortedStableFunc(slices.Values(r.lost), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) }) {
		in := o.Input.(asked)
		for i, c := range changes {
			if c.key != in.key || taken[c.revision] || r.acknowledged(c.revision) {
				continue
			}
			if in.verb == remove && c.now.value == 0 && before(changes[:i], c.key).revision == in.revision || in.verb != remove && c.now.value == in.value {
				o.Output, o.Return = answered{done: true, revision: c.revision}, never
				all = append(all, o)
				taken[c.revision] = true
				break
			}
		}
	}
	return all
}

// acknowledged is whether a client has been told that its write is this change.
func (r *record) acknowledged(revision int64) bool {
	for _, o := range r.all {
		if out := o.Output.(answered); out.done && out.revision == revision {
			return true
		}
	}
	return false
}

// removes is whether a client has asked for the removal, and was told that it happened or nothing at all.
func (r *record) removes(c change) bool {
	asks := func(o porcupine.Operation) bool {
		in := o.Input.(asked)
		return in.verb == remove && in.key == c.key && in.revision == c.was.revision
	}
	return slices.ContainsFunc(r.lost, asks) || slices.ContainsFunc(r.all, func(o porcupine.Operation) bool {
		return asks(o) && o.Output.(answered).done && o.Output.(answered).revision == c.revision
	})
}

// before returns what a key was after the changes.
func before(changes []change, key int) entry {
	for i := len(changes) - 1; i >= 0; i-- {
		if changes[i].key == key {
			return changes[i].now
		}
	}
	return entry{}
}
