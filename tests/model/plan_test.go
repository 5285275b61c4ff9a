package model

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

var planSeed = flag.Uint64("model.plan", 0, "plan only in the random world of this seed")

// TestPlans plans deletions in random worlds, carries them out, and compares the outcome with the plan.
func TestPlans(t *testing.T) {
	if *planSeed != 0 {
		tryPlan(t, *planSeed)
		return
	}
	worlds := size.Of[uint64](150, 750, 7500) / slowness
	var next, gone, stuck, freed, timedOut, rings, uncertain atomic.Int64
	t.Run("search", func(t *testing.T) {
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for {
					seed := uint64(next.Add(1))
					if seed > worlds || t.Failed() {
						return
					}
					res := tryPlan(t, seed)
					if res == nil {
						continue
					}
					rings.Add(int64(len(res.Rings)))
					for _, o := range res.Objects {
						counter := map[plan.Fate]*atomic.Int64{plan.Gone: &gone, plan.Stuck: &stuck, plan.Freed: &freed}[o.Fate]
						if counter != nil {
							counter.Add(1)
						}
						if o.TimedOut {
							timedOut.Add(1)
						}
						if o.Uncertain {
							uncertain.Add(1)
						}
					}
				}
			})
		}
	})
	t.Logf("%d worlds: %d objects gone, %d stuck, %d freed, %d timed out, %d rings, %d uncertain", worlds, gone.Load(), stuck.Load(), freed.Load(), timedOut.Load(), rings.Load(), uncertain.Load())
	if n := int64(worlds); n >= 1000 && (gone.Load() < n || min(stuck.Load(), freed.Load()) < n/10 || min(timedOut.Load(), rings.Load()) < n/50 || uncertain.Load() > gone.Load()/10) {
		t.Error("the worlds show too little, or too little is certain")
	}
}

func tryPlan(t *testing.T, seed uint64) (res *plan.Result) {
	bubble.Test(t, func(t *testing.T) {
		w := worldOf(seed)
		w.lossless = true
		m := w.start()
		defer m.close()
		g := &generator{world: w, r: rand.New(rand.NewPCG(w.seed, 2))}
		for n := 0; n < w.steps && m.wrong == nil; {
			// Namespaces are not objects in these worlds: no plan knows that one is being deleted.
			if a := g.next(m); a.op == opEnd || m.apply(a) {
				n++
			}
		}
		m.settle()
		m.elapse()
		for range w.objects { // in a world at rest few objects are left that own others
			m.apply(g.create())
		}
		m.settle()
		m.apply(action{op: opPause, n: 8})
		m.settle()
		if m.wrong != nil {
			t.Errorf("world %d before the plan: %v", seed, m.wrong)
			return
		}
		d := drawDeletion(g, m)
		if d == nil {
			return
		}
		before := m.server.writes
		res = d.foretell(m)
		if m.server.writes != before {
			t.Errorf("world %d: a plan writes", seed)
		}
		happened := d.carryOut(g, m)
		if err := errors.Join(m.wrong, d.compare(m, res, happened)); err != nil {
			t.Errorf("%v\n%s\n(again: -run TestPlans -model.plan=%d)", err, d.describe(m, res), seed)
		}
	})
	return res
}

// deletion is a user's request.
type deletion struct {
	uids   []types.UID
	keys   []graph.Key
	policy policy
	world  string // before
	// reached holds the objects that the deletion can change: dependents, and owners that wait for them.
	reached map[types.UID]bool
	// before holds all objects as they were when the plan was made.
	before map[types.UID]*object
}

// drawDeletion draws objects that a user deletes.
func drawDeletion(g *generator, m *model) *deletion {
	d := &deletion{policy: []policy{background, foreground, foreground, orphan, ""}[g.r.IntN(5)]}
	var there []*object
	for _, o := range m.server.objects {
		if kindsOf(o.storage)[0].Monitored {
			there = append(there, o)
		}
	}
	slices.SortFunc(there, func(a, b *object) int { return strings.Compare(string(a.uid), string(b.uid)) })
	for range one(g, []int{1, 1, 1, 2, 3}) {
		if len(there) == 0 {
			break
		}
		i := g.r.IntN(len(there))
		if owns := func(o *object) bool { return m.owns(o.uid) }; g.chance(3, 4) && slices.ContainsFunc(there, owns) {
			for !owns(there[i]) {
				i = g.r.IntN(len(there))
			}
		}
		d.uids = append(d.uids, there[i].uid)
		d.keys = append(d.keys, graph.Key{Resource: one(g, kindsOf(there[i].storage)).GroupResource(), UID: there[i].uid})
		there = slices.Delete(there, i, i+1)
	}
	if len(d.uids) == 0 {
		return nil
	}
	d.world = m.describe()
	d.before = maps.Clone(m.server.objects) // a change stores another object
	d.reached = map[types.UID]bool{}
	for next := d.uids; len(next) > 0; {
		uid := next[0]
		next = next[1:]
		if d.reached[uid] {
			continue
		}
		d.reached[uid] = true
		for _, o := range m.server.objects {
			named := slices.ContainsFunc(o.refs, func(r graph.Reference) bool { return r.UID == uid })
			waits := o.waits() && slices.ContainsFunc(m.server.objects[uid].refs, func(r graph.Reference) bool { return r.UID == o.uid })
			if named || waits {
				next = append(next, o.uid)
			}
		}
	}
	return d
}

// owns reports whether any object names a UID.
func (m *model) owns(uid types.UID) bool {
	for _, o := range m.server.objects {
		if slices.ContainsFunc(o.refs, func(r graph.Reference) bool { return r.UID == uid }) {
			return true
		}
	}
	return false
}

// describe lists all objects.
func (m *model) describe() string {
	var b strings.Builder
	for _, o := range m.sortedObjects() {
		fmt.Fprintf(&b, "  %s %s %s/%s deleting %v held %v foreground %v orphan %v\n", o.uid, o.storage, o.namespace, o.name, o.deleting, o.held, o.foreground, o.orphan)
		for _, r := range o.refs {
			fmt.Fprintf(&b, "      %s %s %s uid %s %s\n", r.APIVersion, r.Kind, r.Name, r.UID, map[graph.Flag]string{graph.True: "blocking"}[r.BlockOwnerDeletion])
		}
	}
	return b.String()
}

func (m *model) sortedObjects() (all []*object) {
	for _, o := range m.server.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *object) int { return strings.Compare(string(a.uid), string(b.uid)) })
	return all
}

func (d *deletion) describe(m *model, res *plan.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "before:\n%sdelete %v %q\nforetold:\n", d.world, d.uids, d.policy)
	for _, o := range res.Objects {
		fmt.Fprintf(&b, "  %s %s step %d at %s, reason %s held %s loses %v timed out %v ring %d uncertain %v\n", o.Record.UID, o.Fate, o.Step, o.At, o.Reason, o.Held, o.Loses, o.TimedOut, o.Ring, o.Uncertain)
	}
	fmt.Fprintf(&b, "after:\n%s", m.describe())
	return b.String()
}

// foretell makes the plan.
func (d *deletion) foretell(m *model) *plan.Result {
	w := plan.Take(m.graph, d.keys)
	for _, o := range w.Unseen(m.now, 1000) {
		_, version := splitAPIVersion(o.Reference.APIVersion)
		f := graph.Fact{State: graph.Absent}
		if found, out := m.server.get(kindOf(o.Resource.GroupResource()), version, o.At.Namespace, o.At.Name); out == ok && found.uid == o.Reference.UID {
			f = graph.Fact{State: graph.Present, Seen: m.now, Waiting: found.waits(), Version: found.record().ResourceVersion}
		}
		w.Learn(o.Reference.UID, o.At, f)
	}
	rules := m.real.PlanRules()
	rules.Rings = m.detects
	res, err := w.Delete(context.Background(), d.policy, rules, m.now)
	if err != nil {
		panic(err)
	}
	return res
}

// carryOut deletes for real and returns the order in which objects ended.
func (d *deletion) carryOut(g *generator, m *model) (ended []types.UID) {
	tell := m.server.tell
	m.server.tell = func(o *object, end bool) {
		if end {
			ended = append(ended, o.uid)
		}
		tell(o, end)
	}
	drawn := func(most int) {
		for range g.r.IntN(most) {
			switch a := g.next(m); a.op {
			case opDeliver, opBegin, opStep, opOrphan, opLook, opBreak:
				m.apply(a)
			}
		}
	}
	// Between two deletions, and after the last, the collector may be slow, fast, or anything in between. Otherwise it works
	// in the order of names.
	pace := g.r.IntN(4)
	for i, uid := range d.uids {
		if i > 0 && pace == 1 {
			m.settle()
		}
		m.apply(action{op: opDelete, uid: uid, policy: d.policy})
		if pace > 1 {
			drawn(250)
		}
	}
	m.settle()
	for next := m.nextTimer(); next.After(m.now) && m.wrong == nil; next = m.nextTimer() {
		m.pass(next.Sub(m.now))
		m.settle()
	}
	m.elapse()
	return ended
}

// nextTimer returns when an object is to be looked at next, while a deadline of any foreground deletion is ahead; afterwards
// the zero time.
func (m *model) nextTimer() (next time.Time) {
	if !slices.ContainsFunc(m.waiting(), func(k graph.Key) bool { return m.deadline(k).After(m.now) }) {
		return next
	}
	for _, t := range m.timers {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	return next
}

// compare compares the outcome with the plan.
func (d *deletion) compare(m *model, res *plan.Result, ended []types.UID) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	foretold := map[types.UID]*plan.Object{}
	for i := range res.Objects {
		foretold[res.Objects[i].Record.UID] = &res.Objects[i]
	}
	for _, uid := range ended {
		if !d.reached[uid] {
			continue // a deadline from before the deletion
		}
		if o := foretold[uid]; o == nil || o.Fate != plan.Gone && !o.Uncertain {
			bad("%s has gone, and that was not foretold", uid)
		}
	}
	for uid, o := range foretold {
		if o.Uncertain {
			continue
		}
		now := m.server.objects[uid]
		if (now == nil) != (o.Fate == plan.Gone) {
			bad("%s: foretold %s, there: %v", uid, o.Fate, now != nil)
			continue
		}
		if now == nil {
			continue
		}
		if now.deleting != (o.Fate == plan.Stuck) && !(o.Fate == plan.Unchanged && o.Record.Deleting) {
			bad("%s: foretold %s, deleting: %v", uid, o.Fate, now.deleting)
		}
		left := without(o.Record.References, o.Loses)
		for i, r := range left {
			if slices.Contains(o.Unblocks, r) {
				left[i].BlockOwnerDeletion = graph.False
			}
		}
		if twin := namedTwice(o.Record.References); !slices.Equal(slices.DeleteFunc(left, twin), slices.DeleteFunc(slices.Clone(now.refs), twin)) {
			bad("%s: foretold references %v, it has %v", uid, left, now.refs)
		}
	}
	for uid := range d.reached {
		was, now := d.before[uid], m.server.objects[uid]
		if foretold[uid] != nil || now == nil {
			continue
		}
		twin := namedTwice(was.refs)
		if now.deleting != was.deleting || !slices.Equal(slices.DeleteFunc(slices.Clone(was.refs), twin), slices.DeleteFunc(slices.Clone(now.refs), twin)) {
			bad("%s: nothing was foretold; deleting: %v, was %v; references %v, had %v", uid, now.deleting, was.deleting, now.refs, was.refs)
		}
	}
	// The order is defined for the events that follow from one deletion. Those of another deletion may come first.
	place := map[types.UID]int{}
	for i, uid := range ended {
		place[uid] = i
	}
	for _, e := range res.Events {
		if len(d.uids) > 1 || e.What != plan.Ended || res.Objects[e.Object].Uncertain {
			continue
		}
		for _, before := range e.After {
			if b := res.Events[before]; b.What == plan.Ended && !res.Objects[b.Object].Uncertain && place[res.Objects[b.Object].Record.UID] > place[res.Objects[e.Object].Record.UID] {
				bad("%s ended after %s, and the other way round was foretold", res.Objects[b.Object].Record.UID, res.Objects[e.Object].Record.UID)
			}
		}
	}
	return errors.Join(errs...)
}

// namedTwice reports which references name an owner that others of them name through another resource. Each resource has a
// monitor. While only one monitor has shown that the owner waits or has gone, the reference through its resource may be
// dropped.
func namedTwice(refs []graph.Reference) func(graph.Reference) bool {
	return func(r graph.Reference) bool {
		group, _ := splitAPIVersion(r.APIVersion)
		return slices.ContainsFunc(refs, func(other graph.Reference) bool {
			otherGroup, _ := splitAPIVersion(other.APIVersion)
			return other.UID == r.UID && otherGroup != group
		})
	}
}
