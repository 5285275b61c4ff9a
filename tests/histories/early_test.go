package histories

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// flight is the time in which a write was committed: somewhere in it.
type flight struct{ called, ended int64 }

// flights are the writes of a store that gives a write its revision before it is committed (kine#676), by revision. What was committed
// earlier may have a later revision; whoever reads in between sees the later one and not the earlier. For any other store it is nil:
// nothing excuses what is missing.
type flights map[int64]flight

// flightsOf returns the flights of all writes. A write is committed when it is acknowledged, and when a read has shown it.
func flightsOf(all []porcupine.Operation, readings []reading) flights {
	f := flights{}
	for _, o := range all {
		if out := o.Output.(answered); out.done {
			f[out.revision] = flight{o.Call, o.Return}
		}
	}
	for _, r := range readings {
		for _, e := range r.entries {
			if w, there := f[e.revision]; there {
				f[e.revision] = flight{w.called, min(w.ended, r.returned)}
			}
		}
	}
	return f
}

// early is whether somebody who has looked at the store between two times, and has found it at a revision, may not have found the write
// of a revision before: it was not committed yet.
func (f flights) early(write, revision, from, to int64) bool {
	w, there := f[write]
	return there && write < revision && w.called < to && w.ended > from
}

// checkOrder holds revisions to the order of time: a write has a later one than all that had been written or read when it was asked for,
// and a read of the latest has none that is earlier than these.
func checkOrder(all []porcupine.Operation, readings []reading) error {
	type event struct {
		called, returned, revision int64
		write                      bool
		what                       string
	}
	var events []event
	for _, o := range all {
		in, out := o.Input.(asked), o.Output.(answered)
		if out.done {
			events = append(events, event{o.Call, o.Return, out.revision, true, in.String()})
		}
	}
	for _, r := range readings {
		if r.asked == 0 {
			events = append(events, event{r.called, r.returned, r.revision, false, r.String()})
		}
	}
	byReturn := slices.Clone(events)
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.called, b.called) })
	slices.SortFunc(byReturn, func(a, b event) int { return cmp.Compare(a.returned, b.returned) })
	var before event // the latest revision of what had been answered
	for _, e := range events {
		for len(byReturn) > 0 && byReturn[0].returned < e.called {
			if byReturn[0].revision > before.revision {
				before = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if e.revision < before.revision || e.write && e.revision == before.revision {
			return fmt.Errorf("%s has revision %d, and was asked for after the answer to %s, with revision %d", e.what, e.revision, before.what, before.revision)
		}
	}
	return nil
}
