package observe

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// change says what a notification is about.
type change uint8

const (
	// shown: the monitor shows the object, new or changed.
	shown change = iota
	// vanished: a list does not show the object any more, or its name shows another UID.
	vanished
	// shownThenVanished: both, and the graph has heard of neither.
	shownThenVanished
	// deleted: a DELETED event has come.
	deleted
	// firstList: everything in the monitor's first list comes before this.
	firstList
)

// notification is something that a monitor has seen and the graph has not heard of.
type notification struct {
	change     change
	record     *graph.Record // nil for firstList
	prev, next *notification
}

// pending holds a monitor's notifications, in order, until the graph hears of them. Of
// one object it holds one notification that still matters: while the graph is busy,
// memory grows with the objects that change and not with how often they do. It may be
// used concurrently.
type pending struct {
	// ready has a value when there may be something to take.
	ready chan struct{}

	// mu protects what follows.
	mu          sync.Mutex
	first, last *notification
	// byUID holds the newest notification about each object.
	byUID map[types.UID]*notification
	most  int // how large byUID has been since it was made
}

func newPending() *pending {
	return &pending{ready: make(chan struct{}, 1), byUID: map[types.UID]*notification{}}
}

// add appends a notification, or changes the one that there is about the same object:
//
//   - A newer record takes the place of an older one. Nobody has acted on either.
//   - An object that is shown again has not vanished.
//   - An end makes what was shown before superfluous. It is appended, since what names
//     the object may have been shown before.
//   - An end stays, whatever is shown later under the same UID.
func (p *pending) add(c change, rec *graph.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch before := p.byUID[rec.UID]; {
	case before == nil, before.change == deleted && c == shown:
		p.append(c, rec)
	case c == shown:
		before.change, before.record = shown, rec
	case c == deleted:
		p.remove(before)
		p.append(c, rec)
	case before.change == shown:
		before.change = shownThenVanished // the graph has to know what is to be read live
	}
	p.wake()
}

// mark appends the end of the first list.
func (p *pending) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link(&notification{change: firstList})
	p.wake()
}

// wake says that there is something to take.
func (p *pending) wake() {
	select {
	case p.ready <- struct{}{}:
	default: // that is known already
	}
}

// append adds a notification that is the newest about its object. p.mu is held.
func (p *pending) append(c change, rec *graph.Record) {
	n := &notification{change: c, record: rec}
	p.link(n)
	p.byUID[rec.UID] = n
	p.most = max(p.most, len(p.byUID))
}

func (p *pending) link(n *notification) {
	n.prev = p.last
	if p.last == nil {
		p.first = n
	} else {
		p.last.next = n
	}
	p.last = n
}

// remove takes a notification out of the order. p.mu is held.
func (p *pending) remove(n *notification) {
	if n.prev == nil {
		p.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		p.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

// takeAtMost bounds what is taken at once: what is taken can no longer be replaced by
// something newer.
const takeAtMost = 64

// keepMap is how large byUID may have been to be used again: a map never shrinks.
const keepMap = 1024

// take removes the oldest notifications and appends them to batch.
func (p *pending) take(batch []notification) []notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.first != nil && len(batch) < takeAtMost {
		n := p.first
		p.remove(n)
		if n.record != nil && p.byUID[n.record.UID] == n {
			delete(p.byUID, n.record.UID)
		}
		batch = append(batch, *n)
	}
	if len(p.byUID) == 0 && p.most > keepMap {
		p.byUID, p.most = map[types.UID]*notification{}, 0
	}
	return batch
}
