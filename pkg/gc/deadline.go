package gc

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// afterSync is how long after the first lists nothing times out: what the process
// has missed shows by then.
const afterSync = 30 * time.Second

// progressEvery is how often progress is looked for: so much later it may count.
const progressEvery = time.Second

// never is the annotation's value for no timeout.
const never = "never"

// Timeout says how long a foreground deletion may wait without progress: Base, and
// PerDependent for each descendant it still has. A Base of 0 is for ever.
type Timeout struct {
	Base, PerDependent time.Duration
}

// deadlines knows until when foreground deletions may wait. Time is measured as it
// elapses: the wall clock is read once, when a deletion is first looked at, to know
// how long it had waited before this process saw it.
type deadlines struct {
	timeout Timeout
	graph   *graph.Graph
	// paused returns how much of the time between two moments the collector was
	// paused.
	paused func(from, to time.Time) time.Duration

	// mu protects what follows.
	mu       sync.Mutex
	syncedAt time.Time
	waits    map[graph.Key]*waited
}

// waited is how long a foreground deletion that something blocks has waited.
type waited struct {
	last     time.Time // when it, or a blocking dependent, was deleted, or a descendant was seen to go
	progress uint64    // the graph's count at last
}

// synced notes that the first lists are in the graph.
func (d *deadlines) synced(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncedAt = now
}

// of returns when the foreground deletion of an object that something blocks is
// given up on: the zero time for never.
func (d *deadlines) of(k graph.Key, rec *graph.Record, now time.Time) time.Time {
	base := d.base(rec)
	if base <= 0 {
		return time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.look(k, rec, now)
	deadline := w.last.Add(base + d.paused(w.last, now))
	if !now.Before(deadline) {
		// Only now is it worth counting.
		deadline = deadline.Add(time.Duration(d.graph.Descendants(k)) * d.timeout.PerDependent)
	}
	if floor := d.syncedAt.Add(afterSync); deadline.Before(floor) {
		return floor
	}
	return deadline
}

// base is how long the object may wait, before anything is added for dependents.
func (d *deadlines) base(rec *graph.Record) time.Duration {
	if rec.SyncTimeout == never {
		return 0
	}
	if own, err := time.ParseDuration(rec.SyncTimeout); err == nil {
		return own
	}
	return d.timeout.Base
}

// look brings what is known of a wait up to date.
func (d *deadlines) look(k graph.Key, rec *graph.Record, now time.Time) *waited {
	progress, _ := d.graph.Wait(k)
	w := d.waits[k]
	switch {
	case w == nil:
		w = &waited{last: elapsedSince(rec.DeletedAt, now)}
		for _, b := range d.graph.Blockers(k) {
			if t := elapsedSince(b.Record.DeletedAt, now); b.Record.Deleting && t.After(w.last) {
				w.last = t
			}
		}
		if d.waits == nil {
			d.waits = map[graph.Key]*waited{}
		}
		d.prune()
		d.waits[k] = w
	case w.progress != progress.Progress:
		w.last = now
	}
	w.progress = progress.Progress
	return w
}

// followWaits notes the progress of foreground deletions soon after it was made,
// until ctx ends. Most of it, that of a distant descendant, is no reason to look at
// the object itself.
func (c *Collector) followWaits(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { c.deadlines.follow(c.now()) }, progressEvery)
}

// follow notes which waits have come further.
func (d *deadlines) follow(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, w := range d.waits {
		if p, waits := d.graph.Wait(k); waits && p.Progress != w.progress {
			w.last, w.progress = now, p.Progress
		}
	}
}

// elapsedSince returns the time of a timestamp of the wall clock on the clock that
// now was read from, which no jump moves. A timestamp in the future is now.
func elapsedSince(unix int64, now time.Time) time.Time {
	return now.Add(-max(0, now.Sub(time.Unix(unix, 0))))
}

// pruneAt is how many waits are remembered before those that have ended in some
// other way are looked for.
const pruneAt = 1024

func (d *deadlines) prune() {
	if len(d.waits) == 0 || len(d.waits)%pruneAt != 0 {
		return
	}
	for k := range d.waits {
		if _, waits := d.graph.Wait(k); !waits {
			delete(d.waits, k)
		}
	}
}

// forget ends the memory of a wait.
func (d *deadlines) forget(k graph.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waits, k)
}

// warnOfTimeout tells users that a foreground deletion was given up on, and what
// still blocked it.
func (a *attempt) warnOfTimeout(blockers []graph.Dependent) {
	var names []string
	for i, b := range blockers {
		if i == namedMembers {
			names = append(names, "…")
			break
		}
		names = append(names, b.Key.Resource.String()+"/"+objectName(b.Record))
	}
	countTimeout()
	a.c.warn(a.view.Resource, a.view.Record, "SynchronousDeletionTimedOut",
		"The object goes before its dependents: %d still blocked its foreground deletion (%s)", len(blockers), strings.Join(names, ", "))
}
