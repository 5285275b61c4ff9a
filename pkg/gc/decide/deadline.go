package decide

import (
	"math"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Timeout says how long a foreground deletion may wait without progress: Base, and
// PerDependent for each descendant it still has. A Base of 0 is for ever.
type Timeout struct {
	Base, PerDependent time.Duration
}

// Options are what decisions depend on besides the object.
type Options struct {
	// Timeout bounds foreground deletions.
	Timeout Timeout
	// NotBefore is the time before which no foreground deletion times out.
	NotBefore time.Time
	// Pauses are the times in which the collector was paused. They count towards no
	// deadline.
	Pauses Pauses
}

// Pause is a time in which the collector was paused. To is the zero time while it is.
type Pause struct{ From, To time.Time }

// Pauses are pauses that do not overlap.
type Pauses []Pause

// Within returns how much of the time between two moments was paused.
func (p Pauses) Within(from, to time.Time) time.Duration {
	var total time.Duration
	for _, i := range p {
		begin, end := i.From, i.To
		if begin.Before(from) {
			begin = from
		}
		if end.IsZero() || end.After(to) {
			end = to
		}
		total += max(0, end.Sub(begin))
	}
	return total
}

// Deadline returns when the foreground deletion of the object in the view is given up
// on; the zero time for never. It is the latest of the object's deletion, the deletion of
// a dependent that blocks it and the moment that a descendant went, plus the timeout. Objects that were
// created after the object's deletion do not count.
//
// Descendants matter only once the deadline would have passed without them. survey is
// true if they have to be counted for that; then View.Survey has to be set, and the
// returned deadline is the one without them.
func Deadline(v *graph.View, o Options, now time.Time) (deadline time.Time, survey bool) {
	base := o.Timeout.Base
	if own := v.Record.SyncTimeout; own != 0 {
		base = own
	}
	if base <= 0 { // graph.NoTimeout among others
		return time.Time{}, false
	}
	last := v.Wait.Progress
	deadline = last.Add(base + o.Pauses.Within(last, now))
	if !now.Before(deadline) {
		if v.Survey == nil {
			survey = true
		} else {
			if v.Survey.Progress.After(last) {
				last = v.Survey.Progress
			}
			deadline = last.Add(base + o.Pauses.Within(last, now)).Add(times(v.Survey.Descendants, o.Timeout.PerDependent))
		}
	}
	if deadline.Before(o.NotBefore) {
		return o.NotBefore, survey && !now.Before(o.NotBefore)
	}
	return deadline, survey
}

// times multiplies, up to the longest duration of about a century, which added to a time
// does not overflow.
func times(n int, d time.Duration) time.Duration {
	const longest = math.MaxInt64 / 3
	if d > 0 && time.Duration(n) > longest/d {
		return longest
	}
	return time.Duration(n) * d
}
