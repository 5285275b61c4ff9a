package plan

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// run is one simulation.
type run struct {
	rules      Rules
	bound      *bound // nil for none
	schedule   schedule
	random     *rand.Rand // nil unless the schedule is shuffled
	g          *graph.Graph
	began, now time.Time

	things []*thing // in the order of their names
	byKey  map[graph.Key]*thing
	byUID  map[types.UID][]*thing
	// inNamespace and ofResource find what namespaces and definitions contain.
	inNamespace map[string][]*thing
	ofResource  map[schema.GroupResource][]*thing

	queue, orphans     []graph.Key
	queued, orphanings map[graph.Key]bool
	controllers        []*container // that have something to do
	timers             timers
	// ringsAt is when rings are looked for; the zero time if nothing has changed.
	ringsAt    time.Time
	tombstones map[types.UID]bool

	events []event
	rings  [][]*thing
	// raced is true if fates may depend on the order in which things are done.
	raced bool
	// orphaned is true if an owner lets its dependents stay.
	orphaned bool
	// unseen counts the owners that nobody could read.
	unseen map[*thing]bool
	// lists is true of a resource of which all objects are known.
	lists func(schema.GroupResource) bool
}

// event is an Event with its step.
type event struct {
	what  What
	of    *thing
	at    time.Duration
	after []int
	step  int
}

// schedule says in which order a run does what can be done at the same time.
type schedule struct {
	last        bool // what came last is done first
	reverse     bool // of what came at once, the last by name is done first
	orphanFirst bool
	between     bool // what follows upon one DELETE comes before the next DELETE is seen
	// shuffled, if it is not 0, has what can be done at the same time drawn at random.
	shuffled uint64
}

// schedules are all there are, the usual one first.
func schedules() (all []schedule) {
	for i := range 16 {
		all = append(all, schedule{last: i&1 != 0, reverse: i&2 != 0, orphanFirst: i&4 != 0, between: i&8 != 0})
	}
	return all
}

// thing is an object of the simulated server.
type thing struct {
	// keys name it under each resource that shows it.
	keys []graph.Key
	rank int
	// first is the record before the deletion, and rec the present one, or the last.
	first, rec *graph.Record
	gone       bool
	target     bool         // its deletion was asked for
	waited     bool         // it has been in foreground deletion
	contents   *container   // of a namespace or definition that is being deleted
	in         []*container // those that wait for its end

	reason         Reason
	policy         metav1.DeletionPropagation
	by             *thing
	touched        bool
	loses          []graph.Reference
	unblocks       []graph.Reference
	timedOut       bool
	ring           int
	at             time.Duration
	step           int
	marked, ended  int   // events; -1
	cleared        []int // events that ended what blocked it
	orphaningWaits bool
	orphaningSince time.Time
}

// newRun begins a simulation with a copy of its own.
func newRun(w *World, rules Rules, s schedule, now time.Time) *run {
	copied := w.graph.Excerpt(w.graph.Reached, func(graph.Node) graph.Contents { return graph.Contents{} })
	r := &run{
		rules: rules, schedule: s, g: copied.Graph, began: now, now: now,
		byKey: make(map[graph.Key]*thing, len(copied.Reached)), byUID: make(map[types.UID][]*thing, len(copied.Reached)),
		queued: map[graph.Key]bool{}, orphanings: map[graph.Key]bool{}, tombstones: map[types.UID]bool{}, unseen: map[*thing]bool{}, lists: w.graph.Lists,
		timers: timers{at: map[graph.Key]time.Time{}},
	}
	if s.shuffled > 0 {
		r.random = rand.New(rand.NewPCG(s.shuffled, 0))
	}
	copied.AssumeListed(now)
	for _, k := range copied.Reached {
		v, _ := r.g.View(k)
		r.enter(k, v.Record)
	}
	slices.SortFunc(r.things, func(a, b *thing) int {
		return cmp.Or(
			cmp.Compare(a.first.Namespace, b.first.Namespace), cmp.Compare(a.keys[0].Resource.Group, b.keys[0].Resource.Group),
			cmp.Compare(a.keys[0].Resource.Resource, b.keys[0].Resource.Resource), cmp.Compare(a.first.Name, b.first.Name), cmp.Compare(a.first.UID, b.first.UID))
	})
	for i, t := range r.things {
		t.rank = i
	}
	return r
}

// enter makes an object of the graph one of the server. Resources that show the same UID
// under the same name show one object.
func (r *run) enter(k graph.Key, rec *graph.Record) {
	for _, t := range r.byUID[k.UID] {
		if t.first.Namespace == rec.Namespace && t.first.Name == rec.Name {
			t.keys = append(t.keys, k)
			slices.SortFunc(t.keys, func(a, b graph.Key) int { return cmp.Compare(a.Resource.String(), b.Resource.String()) })
			r.byKey[k] = t
			return
		}
	}
	t := &thing{keys: []graph.Key{k}, first: rec, rec: rec, waited: rec.WaitingForDependents(), marked: -1, ended: -1}
	r.things = append(r.things, t)
	r.byUID[k.UID] = append(r.byUID[k.UID], t)
	r.byKey[k] = t
}

// play goes on until nothing happens any more.
func (r *run) play() {
	for r.work(); r.stop() || r.wait(); r.work() {
	}
}

// stop ends what is being deleted without a finalizer, as pods are while their containers stop. False if there is nothing.
func (r *run) stop() (any bool) {
	if !r.bound.step() {
		return false
	}
	for _, t := range r.things {
		if t.gone || !t.rec.Deleting || t.contents != nil || t.rec.Foreground || t.rec.Orphan || r.held(t, t.rec) {
			continue
		}
		any = true
		stopped := *t.rec
		r.put(t, &stopped, Released, nil)
	}
	return any
}

// work does what can be done without time passing.
func (r *run) work() {
	for r.step() {
	}
}

// step does one thing; false if there is nothing to do now.
func (r *run) step() bool {
	if !r.bound.step() {
		return false
	}
	if r.random != nil && r.random.IntN(16) == 0 {
		r.breakRings() // as they are looked for at any time
	}
	switch {
	case len(r.controllers) > 0:
		c := r.controllers[0]
		r.controllers = r.controllers[1:]
		r.control(c)
	case len(r.orphans) > 0 && (r.schedule.orphanFirst || len(r.queue) == 0 || r.random != nil && r.random.IntN(2) == 0):
		k := r.take(&r.orphans)
		delete(r.orphanings, k)
		r.orphan(k)
	case len(r.queue) > 0:
		k := r.take(&r.queue)
		delete(r.queued, k)
		r.attempt(k)
	default:
		return false
	}
	return true
}

// take takes the next key out of a queue.
func (r *run) take(queue *[]graph.Key) graph.Key {
	at := 0
	switch {
	case r.random != nil:
		at = r.random.IntN(len(*queue))
	case r.schedule.last:
		at = len(*queue) - 1
	}
	k := (*queue)[at]
	if at == 0 {
		*queue = (*queue)[1:]
	} else {
		*queue = slices.Delete(*queue, at, at+1)
	}
	return k
}

// wait lets time pass until something is to be done; false if nothing ever is.
func (r *run) wait() bool {
	if !r.bound.step() {
		return false
	}
	if r.rules.Rings && !r.rules.Kubernetes && r.g.TakeWaitingChanged() && r.ringsAt.IsZero() {
		r.ringsAt = r.now.Add(ringsEvery)
	}
	next, any := r.timers.next()
	switch {
	case !r.ringsAt.IsZero() && (!any || !next.Before(r.ringsAt)):
		r.now, r.ringsAt = r.ringsAt, time.Time{}
		r.breakRings()
		return true
	case !any:
		return false
	}
	r.now = next
	r.consider(r.timers.due(next))
	return true
}

// ringsEvery is how often the collector looks for rings.
const ringsEvery = time.Second

// consider puts objects into the queue, in the order of their names.
func (r *run) consider(keys []graph.Key) {
	from := len(r.queue)
	for _, k := range keys {
		if r.byKey[k] != nil && !r.queued[k] {
			r.queued[k] = true
			r.queue = append(r.queue, k)
		}
	}
	slices.SortFunc(r.queue[from:], func(a, b graph.Key) int {
		return cmp.Or(cmp.Compare(r.byKey[a].rank, r.byKey[b].rank), cmp.Compare(a.Resource.String(), b.Resource.String()))
	})
	if r.schedule.reverse {
		slices.Reverse(r.queue[from:])
	}
}

// note writes down what happens to an object, and returns the event's number.
func (r *run) note(what What, t *thing, after []int) int {
	slices.Sort(after)
	e := event{what: what, of: t, at: r.now.Sub(r.began), after: slices.Compact(after)}
	for _, i := range e.after {
		e.step = max(e.step, r.events[i].step)
	}
	if what == Ended {
		e.step++
		t.step = e.step
	}
	t.touched, t.at = true, e.at
	r.events = append(r.events, e)
	return len(r.events) - 1
}

// after returns the events of the owners that references name: that they ended, or that they wait.
func (r *run) after(refs []graph.Reference) (events []int, by *thing) {
	for i := range refs {
		for _, o := range r.byUID[refs[i].UID] {
			switch {
			case o.ended >= 0:
				events = append(events, o.ended)
			case o.marked >= 0:
				events = append(events, o.marked)
			default:
				continue
			}
			if by == nil {
				by = o
			}
		}
	}
	return events, by
}

// attempt is a turn of the collector with one object, as pkg/gc/attempt.go takes it.
func (r *run) attempt(k graph.Key) {
	for {
		v, ok := r.g.View(k)
		if !ok || v.Resource == nil {
			return
		}
		t := r.byKey[k]
		r.complete(&v)
		d, unblock := r.decide(&v)
		r.noteRaces(&v, d)
		r.raced = r.raced || r.rules.Kubernetes && r.kubernetesRaces(&v, d)
		switch d.Action {
		case decide.Nothing:
			if v.Record.WaitingForDependents() && !d.Again.IsZero() {
				r.timers.set(k, d.Again)
			}
		case decide.Confirm: // the copy is all there is to read
			r.g.Confirm(k, v.Record, r.now)
			continue
		case decide.Verify:
			r.verify(t, d.Verify)
			continue
		case decide.Orphan:
			if !r.orphanings[k] {
				r.orphanings[k] = true
				r.orphans = append(r.orphans, k)
			}
		case decide.Release:
			t.timedOut = t.timedOut || d.Reason == decide.TimedOut
			released := *t.rec
			released.Foreground = false
			after := t.cleared
			if t.marked >= 0 {
				after = append(after, t.marked)
			}
			r.put(t, &released, Released, after)
		case decide.Delete:
			after, by := r.after(v.Record.References)
			if unblock && r.unblock(t, t.rec.References, slices.Clone(after)) {
				return // the DELETE fails, since the object has changed: it is tried again
			}
			r.delete(t, d.Policy, Reason(d.Reason), by, after)
		case decide.Drop:
			after, by := r.after(d.Drop)
			r.drop(t, d.Drop, Reason(d.Reason), by, after)
		}
		return
	}
}

// decide says what the collector would do about an object.
func (r *run) decide(v *graph.View) (d decide.Decision, unblock bool) {
	if r.rules.Kubernetes {
		return r.kubernetes(v)
	}
	return decide.From(r.g, v, r.rules.Options, r.now), false
}

// complete adds to the view what the collector remembers of orphaned owners.
func (r *run) complete(v *graph.View) {
	for i := range v.Owners {
		o := &v.Owners[i]
		uid := o.Reference.UID
		o.Orphaned = (o.Observed == nil || o.Fact.Proved()) && (r.tombstones[uid] || r.rules.Orphaned != nil && r.rules.Orphaned(uid))
	}
}

// noteRaces notes that fates may depend on what comes first: where an owner lets its
// dependents stay, or a reference keeps an object from being deleted for ever, it matters
// which other references the object has by then.
func (r *run) noteRaces(v *graph.View, d decide.Decision) {
	if d.Action == decide.Orphan {
		r.orphaned = true
		return
	}
	for i := range v.Owners {
		if s := decide.Judge(&v.Owners[i], v.Record.Namespace, r.now); s == decide.Unknown || s == decide.Invalid {
			r.raced = true
			return
		}
	}
}

// verify reads owners on the simulated server.
func (r *run) verify(t *thing, owners []graph.OwnerView) {
	for i := range owners {
		o := &owners[i]
		f := graph.Fact{State: graph.Present, Seen: r.now}
		switch {
		case o.Observed != nil:
			f.Waiting, f.Version = o.Observed.WaitingForDependents(), o.Observed.ResourceVersion
		case r.ended(o):
			f = graph.Fact{State: graph.Absent}
		case o.Fact.State == graph.Present:
			// It was there when somebody read it, and nothing here ends it.
		case r.lists(o.Resource.GroupResource()):
			f = graph.Fact{State: graph.Absent}
		default:
			r.unseen[t] = true // which keeps the object
		}
		r.g.Learn(o.Reference.UID, o.At, f)
	}
}

// ended is true of an owner that has gone in this simulation, under whatever resource.
func (r *run) ended(o *graph.OwnerView) bool {
	for _, t := range r.byUID[o.Reference.UID] {
		if t.gone && t.first.Name == o.At.Name && t.first.Namespace == o.At.Namespace {
			return true
		}
	}
	return false
}

// orphan frees the dependents of an owner that is deleted with policy Orphan, and lets it
// go, as pkg/gc/orphaner.go does.
func (r *run) orphan(k graph.Key) {
	t := r.byKey[k]
	if t.gone || !t.rec.Deleting || !t.rec.Orphan {
		return
	}
	served := true
	var after []int
	if t.marked >= 0 {
		after = append(after, t.marked)
	}
	for _, d := range r.sorted(r.g.Dependents(k.UID)) {
		if !r.rules.Kubernetes && d.Record.Elsewhere(t.rec.Namespace) { // which Kubernetes' collector frees too
			continue
		}
		if r.g.Catalog().Resource(d.Key.Resource) == nil {
			served = false
			continue
		}
		of := r.byKey[d.Key]
		var drop []graph.Reference
		for _, ref := range of.rec.References {
			if ref.UID == k.UID {
				drop = append(drop, ref)
			}
		}
		if len(drop) > 0 {
			after = append(after, r.drop(of, drop, Reason(decide.OwnerOrphaned), t, slices.Clone(after[:min(1, len(after))])))
		}
	}
	if r.rules.Holds != "" || !served {
		if !t.orphaningWaits {
			t.orphaningWaits, t.orphaningSince = true, r.now
			if r.rules.OrphanTimeout > 0 {
				r.timers.set(k, r.now.Add(r.rules.OrphanTimeout))
			}
			return
		}
		if r.rules.OrphanTimeout == 0 || r.now.Before(t.orphaningSince.Add(r.rules.OrphanTimeout)) {
			return
		}
		t.timedOut = true
	}
	r.tombstones[k.UID] = true
	released := *t.rec
	released.Orphan = false
	r.put(t, &released, Released, after)
}

// sorted puts nodes into the order of their names.
func (r *run) sorted(nodes []graph.Node) []graph.Node {
	nodes = slices.DeleteFunc(nodes, func(n graph.Node) bool { return r.byKey[n.Key] == nil })
	slices.SortFunc(nodes, func(a, b graph.Node) int { return cmp.Compare(r.byKey[a.Key].rank, r.byKey[b.Key].rank) })
	return nodes
}

// breakRings breaks the rings that there are, as pkg/gc/breaker.go does.
func (r *run) breakRings() {
	if !r.rules.Rings || r.rules.Kubernetes {
		return
	}
	rings := r.g.Cycles()
	for _, ring := range rings {
		slices.SortFunc(ring, func(a, b graph.Member) int { return cmp.Compare(r.byKey[a.Key].rank, r.byKey[b.Key].rank) })
	}
	slices.SortFunc(rings, func(a, b []graph.Member) int { return cmp.Compare(r.byKey[a[0].Key].rank, r.byKey[b[0].Key].rank) })
	for _, ring := range rings {
		var members []*thing
		var after []int
		for _, m := range ring {
			t := r.byKey[m.Key]
			if !slices.Contains(members[max(0, len(members)-1):], t) {
				members = append(members, t)
			}
			if t.marked >= 0 {
				after = append(after, t.marked)
			}
		}
		r.rings = append(r.rings, members)
		for _, m := range ring {
			t := r.byKey[m.Key]
			if t.ring == 0 {
				t.ring = len(r.rings)
			}
			r.unblock(t, m.Blocking, slices.Clone(after))
		}
	}
}

// timers hold when objects are looked at again.
type timers struct {
	at   map[graph.Key]time.Time
	heap timerHeap
}

type timer struct {
	at time.Time
	k  graph.Key
}

// set has an object looked at again at a time, unless it will be sooner.
func (t *timers) set(k graph.Key, at time.Time) {
	if set, is := t.at[k]; is && !at.Before(set) {
		return
	}
	t.at[k] = at
	heap.Push(&t.heap, timer{at, k})
}

// next returns when the next object is to be looked at.
func (t *timers) next() (time.Time, bool) {
	for len(t.heap) > 0 {
		first := t.heap[0]
		if set, is := t.at[first.k]; is && set.Equal(first.at) {
			return first.at, true
		}
		heap.Pop(&t.heap) // another time was set since
	}
	return time.Time{}, false
}

// due takes out the objects that are to be looked at by a time.
func (t *timers) due(now time.Time) (keys []graph.Key) {
	for {
		at, any := t.next()
		if !any || at.After(now) {
			return keys
		}
		k := heap.Pop(&t.heap).(timer).k
		delete(t.at, k)
		keys = append(keys, k)
	}
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
