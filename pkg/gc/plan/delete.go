package plan

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Delete foretells what happens if the targets are deleted, one after another, from the
// time now on, with a propagation policy, or without one by each resource's own default.
// It changes nothing, and may be called again. A pause that has no end yet is taken to end
// now: what would follow is what follows upon that. Cancelling ctx aborts the simulation.
func (w *World) Delete(ctx context.Context, p metav1.DeletionPropagation, rules Rules, now time.Time) (*Result, error) {
	w.bound = &bound{ctx: ctx}
	rules.Options.Pauses = ended(rules.Options.Pauses, now)
	r := w.run(p, rules, schedule{}, now)
	var others []outcome
	if w.bound.err == nil && (r.raced || r.meet() || r.orphaned && !r.onlyOrphans()) {
		// Results that depend on the order in which things are done cannot be foretold.
		others = w.others(p, rules, now, append(schedules()[1:], shuffles(len(r.things))...))
	}
	if w.bound.err != nil {
		return nil, w.bound.err
	}
	return r.result(others), nil
}

// ended ends a pause that is on at the time now. A deadline would never come otherwise: as
// the simulated clock went on, so would the deadline.
func ended(pauses decide.Pauses, now time.Time) decide.Pauses {
	pauses = slices.Clone(pauses)
	for i := range pauses {
		if pauses[i].To.IsZero() {
			pauses[i].To = now
		}
	}
	return pauses
}

func (w *World) run(p metav1.DeletionPropagation, rules Rules, s schedule, now time.Time) *run {
	r := newRun(w, rules, s, now)
	if r.bound = w.bound; !r.bound.begin(w) {
		return r
	}
	for _, t := range r.things {
		if t.rec.Deleting {
			r.open(t) // which goes on
		}
	}
	if rules.Kubernetes {
		r.considerAll() // it has looked at all when it began
		r.work()
	}
	targets := slices.Clone(w.targets)
	if s.reverse {
		slices.Reverse(targets) // as monitors of different resources may show them
	}
	if r.random != nil && r.random.IntN(2) == 0 {
		r.random.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	}
	for _, k := range targets {
		if t := r.byKey[k]; t != nil {
			t.target = true
			r.delete(t, p, Requested, nil, nil)
		}
		switch {
		case r.random != nil && len(targets) > 1: // the collector may have come to any point
			for r.random.IntN(8) > 0 && r.step() {
			}
		case s.between:
			if s.reverse {
				r.breakRings() // they may just have been looked for
			}
			r.attempt(k) // before its dependents
			r.work()
		}
	}
	if !rules.Kubernetes {
		r.considerAll()
	}
	r.play()
	return r
}

// considerAll puts all that is there into the queue.
func (r *run) considerAll() {
	for _, t := range r.things {
		if !t.gone {
			r.consider(t.keys)
		}
	}
}

// meet is true if the deletion has reached an object in two ways: through two of its
// owners, or through an owner and as a target. Then the shorter way may decide.
func (r *run) meet() bool {
	return slices.ContainsFunc(r.things, func(t *thing) bool {
		ways := 0
		if t.target && t.touched {
			ways++
		}
		seen := map[types.UID]bool{}
		for _, ref := range t.first.References {
			if !seen[ref.UID] && slices.ContainsFunc(r.byUID[ref.UID], func(o *thing) bool { return o != t && o.touched && o.rec.Deleting }) {
				ways++
			}
			seen[ref.UID] = true
		}
		return ways > 1
	})
}

// fate returns the fate of an object; empty if the deletion does not concern it.
func (r *run) fate(t *thing) Fate {
	switch {
	case t.gone:
		return Gone
	case t.touched && t.rec.Deleting:
		return Stuck
	case len(t.loses) > 0:
		return Freed
	}
	for _, ref := range t.rec.References {
		for _, o := range r.byUID[ref.UID] {
			if o != t && o.touched && o.rec.Deleting {
				return Unchanged
			}
		}
	}
	return ""
}

// result returns what this run has done; others are the outcomes of other schedules.
func (r *run) result(others []outcome) *Result {
	res := &Result{}
	var concerned []*thing
	fates := make(map[*thing]Fate, len(r.things))
	for _, t := range r.things {
		f := r.fate(t)
		for _, other := range others {
			if f == "" && other[t.rank].fate != "" {
				f = Unchanged // uncertainly
			}
		}
		if f != "" {
			fates[t] = f
			concerned = append(concerned, t)
		}
	}
	rank := map[Fate]int{Gone: 0, Stuck: 1, Freed: 2, Unchanged: 3}
	slices.SortStableFunc(concerned, func(a, b *thing) int {
		if fates[a] != fates[b] {
			return rank[fates[a]] - rank[fates[b]]
		}
		if fates[a] == Gone {
			return a.ended - b.ended
		}
		return 0
	})
	index := make(map[*thing]int, len(concerned))
	for i, t := range concerned {
		index[t] = i
	}
	for _, t := range concerned {
		o := Object{
			Key: t.keys[0], Record: t.first, Fate: fates[t], Reason: t.reason, Policy: t.policy, By: -1, At: t.at, Step: t.step,
			Loses: t.loses, Unblocks: t.unblocks, TimedOut: t.timedOut, Ring: t.ring,
		}
		if t.by != nil {
			o.By = index[t.by]
		}
		if t.rec.Deleting && t.reason == "" {
			o.Reason = Deleted
		}
		switch o.Fate {
		case Stuck:
			r.explainStuck(t, &o, index)
		case Freed, Unchanged:
			r.explainKept(t, &o)
		}
		for _, other := range others {
			same := &other[t.rank]
			o.Uncertain = o.Uncertain || same.fate != o.Fate || !sameReferences(same.loses, t.loses) || !sameReferences(same.unblocks, t.unblocks)
		}
		res.Objects = append(res.Objects, o)
	}
	for _, e := range r.events {
		res.Events = append(res.Events, Event{What: e.what, Object: index[e.of], At: e.at, After: e.after})
		// The clock may have gone on to deadlines of what had gone by then.
		res.Took = max(res.Took, e.at)
	}
	for _, ring := range r.rings {
		var members []int
		for _, t := range ring {
			members = append(members, index[t])
		}
		res.Rings = append(res.Rings, members)
	}
	r.addNotes(res, concerned)
	return res
}

// sameReferences is true if both hold the same, in whatever order.
func sameReferences(a, b []graph.Reference) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(ref graph.Reference) bool { return !slices.Contains(b, ref) })
}

// explainStuck says what keeps an object that is being deleted.
func (r *run) explainStuck(t *thing, o *Object, index map[*thing]int) {
	switch {
	case t.contents != nil && t.contents.off:
		o.Held = ControllerOff
	case t.contents != nil && !t.contents.empty:
		o.Held = HasContents
	case t.rec.Orphan:
		o.Held = OrphaningWaits
	case t.rec.Foreground:
		o.Held = Reason(decide.WaitsForDependent)
		for _, k := range t.keys {
			for _, b := range r.sorted(r.blockers(k)) {
				if i, is := index[r.byKey[b.Key]]; is && !slices.Contains(o.Blockers, i) {
					o.Blockers = append(o.Blockers, i)
				}
			}
		}
	default:
		o.Held = OtherFinalizer
	}
}

// blockers returns objects that one in foreground deletion waits for.
func (r *run) blockers(k graph.Key) []graph.Node {
	if !r.rules.Kubernetes {
		return r.g.Blockers(k, blockersNamed)
	}
	all := slices.DeleteFunc(r.g.Dependents(k.UID), func(n graph.Node) bool { return !blocksByUID(n.Record, k) })
	return all[:min(len(all), blockersNamed)]
}

// blockersNamed bounds how many blockers of one object are named.
const blockersNamed = 100

// explainKept says what keeps an object that nobody deletes.
func (r *run) explainKept(t *thing, o *Object) {
	for _, k := range t.keys {
		v, ok := r.g.View(k)
		if !ok {
			continue
		}
		r.complete(&v)
		d, _ := r.decide(&v)
		o.Held = Reason(d.Reason)
		if r.rules.Kubernetes && d.Action == decide.Delete {
			o.Held = GivenUp
		}
		for i := range v.Owners {
			o.Keeps = append(o.Keeps, Kept{v.Owners[i].Reference, decide.Judge(&v.Owners[i], v.Record.Namespace, r.now)})
		}
		return
	}
}

// addNotes names what cannot be foretold.
func (r *run) addNotes(res *Result, concerned []*thing) {
	notes := map[NoteKind]*Note{}
	note := func(k NoteKind, i int) {
		n := notes[k]
		if n == nil {
			n = &Note{What: k, First: i}
			notes[k] = n
		}
		n.Count++
	}
	for i, t := range concerned {
		o := &res.Objects[i]
		if o.Fate == Gone && o.Key.Resource == pods {
			note(PodGrace, i)
		}
		if o.Fate == Gone && t.first.OtherFinalizers && o.Key.Resource != pods {
			note(Protected, i)
		}
		if o.Fate == Stuck && o.Held == OtherFinalizer {
			note(ForeignFinalizer, i)
		}
		if t.rec.Deleting && !t.first.Deleting && r.controlled(t) {
			note(ControllerReacts, i)
		}
		if r.unseen[t] {
			note(UnseenOwner, i)
		}
		if o.Uncertain {
			note(Timing, i)
		}
	}
	for _, k := range []NoteKind{PodGrace, Protected, ControllerReacts, ForeignFinalizer, UnseenOwner, Timing} {
		if n := notes[k]; n != nil {
			res.Notes = append(res.Notes, *n)
		}
	}
}

// controlled is true if an object that is deleted has a controller that stays, and may
// make another one.
func (r *run) controlled(t *thing) bool {
	v := r.g.ViewOf(t.keys[0].Resource, t.first)
	return slices.ContainsFunc(v.Owners, func(o graph.OwnerView) bool {
		return o.Reference.Controller == graph.True && o.Observed != nil && !o.Observed.Deleting
	})
}
