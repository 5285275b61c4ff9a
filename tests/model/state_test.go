package model

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// state is a digest of everything that can influence the next steps.
type state [sha256.Size]byte

// scribe writes a state in canonical form. It only appends, because it runs for every step
// of every order.
type scribe struct{ b []byte }

var scribes = sync.Pool{New: func() any { return &scribe{b: make([]byte, 0, 8192)} }}

func (s *scribe) text(parts ...string) {
	for _, p := range parts {
		s.b = append(append(s.b, p...), 0)
	}
}

func (s *scribe) number(n int) { s.b = append(strconv.AppendInt(s.b, int64(n), 10), 0) }

func (s *scribe) flag(flags ...bool) {
	for _, f := range flags {
		s.b = strconv.AppendBool(s.b, f)
	}
}

func (s *scribe) refs(refs []graph.Reference) {
	s.number(len(refs))
	for i := range refs {
		s.text(refs[i].APIVersion, refs[i].Kind, refs[i].Name, string(refs[i].UID))
		s.number(int(refs[i].BlockOwnerDeletion))
		s.number(int(refs[i].Controller))
	}
}

func (s *scribe) record(r *graph.Record) {
	if r == nil {
		s.text("nil")
		return
	}
	s.text(r.Namespace, r.Name, string(r.UID), r.ResourceVersion)
	s.flag(r.Deleting, r.Foreground, r.Orphan)
	s.number(int(r.SyncTimeout))
	s.refs(r.References)
}

func (s *scribe) object(o *object) {
	if o == nil {
		s.text("nil")
		return
	}
	s.text(o.storage, o.namespace, o.name, string(o.uid))
	s.number(o.version)
	s.flag(o.deleting, o.held, o.foreground, o.orphan)
	s.number(int(o.timeout))
	s.refs(o.refs)
}

// forgotten is the largest age that matters: no read is believed for longer.
const forgotten = decide.RecheckAfter + time.Second

// age writes how long ago a time is.
func (s *scribe) age(now, t time.Time) {
	if s.flag(t.IsZero()); !t.IsZero() {
		s.number(int(min(now.Sub(t), forgotten) / time.Millisecond))
	}
}

func (s *scribe) owners(owners []graph.OwnerView, now time.Time) {
	s.number(len(owners))
	for i := range owners {
		o := &owners[i]
		s.text(o.At.Group, o.At.Kind, o.At.Namespace, o.At.Name)
		s.flag(o.Resource != nil, o.KindServed, o.Fact.Waiting, o.Orphaned)
		s.age(now, o.Fact.Seen)
		if o.Fact.Waiting {
			s.text(o.Fact.Version)
		}
		s.number(int(o.Fact.State))
		s.record(o.Observed)
	}
}

// breaking writes the search for rings, and what the oracle has noted meanwhile.
func (s *scribe) breaking(m *model) {
	s.flag(m.waitingChanged, m.lookAgain, m.breaking != nil)
	if m.breaking == nil {
		return
	}
	b := m.breaking.(*breaking)
	s.flag(b.failed, b.again)
	s.number(int(b.next))
	s.members(b.reads)
	s.members(b.writes)
	for _, rings := range [][][]graph.Member{b.rings, b.found} {
		s.number(len(rings))
		for _, ring := range rings {
			s.members(ring)
		}
	}
	for _, k := range allKinds {
		live := slices.SortedFunc(slices.Values(b.live[k.GroupResource()]), func(x, y *graph.Record) int { return cmp.Compare(x.UID, y.UID) })
		s.number(len(live))
		for _, rec := range live {
			s.record(rec)
		}
	}
	for _, w := range slices.SortedFunc(maps.Keys(m.within), compareWithin) {
		s.text(string(w.uid))
		s.number(w.version)
		s.refs([]graph.Reference{w.ref})
	}
}

func (s *scribe) members(members []graph.Member) {
	s.number(len(members))
	for _, mem := range members {
		s.text(mem.Key.Resource.Resource)
		s.record(mem.Record)
		s.refs(mem.Blocking)
	}
}

// deadlines writes what deadlines depend on if foreground deletions time out: how long ago
// an object last went at or below each object that the graph knows, and how long ago
// objects with pending events were deleted.
func (s *scribe) deadlines(m *model) {
	for _, uid := range slices.Sorted(maps.Keys(m.storages)) {
		s.deletedAgo(m, m.server.objects[uid])
		for _, k := range kindsOf(m.storages[uid]) {
			key := graph.Key{Resource: k.GroupResource(), UID: uid}
			v, shown := m.graph.View(key)
			if !shown {
				continue
			}
			survey, _ := m.graph.Survey(key)
			s.elapsed(m, m.went[key])
			s.elapsed(m, v.Wait.Progress)
			s.elapsed(m, survey.Progress)
			s.number(survey.Descendants)
			if t, set := m.timers[key]; set {
				s.number(int(t.Sub(m.now) / time.Millisecond))
			}
		}
	}
	for _, mon := range m.monitors {
		for _, e := range mon.stream {
			s.elapsed(m, time.Unix(e.rec.DeletedAt, 0))
		}
	}
	for _, created := range slices.Sorted(maps.Keys(m.storages)) {
		for _, deleted := range slices.Sorted(maps.Keys(m.storages)) {
			s.flag(m.server.follows(created, deleted))
		}
	}
}

func (s *scribe) deletedAgo(m *model, o *object) {
	if o != nil && o.deleting {
		s.elapsed(m, o.deletedAt)
	}
}

// elapsed writes how long ago a time is, up to the age beyond which no deadline in a small
// world depends on it.
func (s *scribe) elapsed(m *model, t time.Time) {
	s.number(int(min(m.now.Sub(t), m.timeout.Base) / time.Millisecond))
}

// pass writes what the oracle knows of a search: the resources that it lists, and which
// references existed before it.
func (s *scribe) pass(m *model, p *pass) {
	if s.flag(p != nil); p == nil {
		return
	}
	for _, r := range p.searched {
		s.text(r.Name)
	}
	for _, uid := range slices.Sorted(maps.Keys(m.server.objects)) {
		o := m.server.objects[uid]
		for _, r := range o.refs {
			s.flag(o.named[r].write <= p.writes)
		}
	}
}

// witnessed writes the proofs that the oracle counts as final.
func (s *scribe) witnessed(m *model) {
	s.number(len(m.witnessed))
	for _, p := range slices.SortedFunc(maps.Keys(m.witnessed), func(x, y [2]types.UID) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	}) {
		w := m.witnessed[p]
		s.text(string(p[0]), string(p[1]), w.kind.Name, w.namespace, w.name)
	}
}

// ghosts writes the states in which hidden kinds may last have shown their objects.
func (s *scribe) ghosts(m *model) {
	f := facts{hidden: m.server.hidden}
	for _, o := range m.server.ghosts {
		if f.isHidden(o.storage) {
			s.object(o)
		}
	}
}

// stateOf digests a model. declared are all references that its world can ever declare;
// they are used to query what the graph knows.
func stateOf(m *model, positions []int, declared []graph.Reference) state {
	s := scribes.Get().(*scribe)
	defer scribes.Put(s)
	s.b = s.b[:0]
	for _, p := range positions {
		s.number(p)
	}
	for _, objects := range []map[types.UID]*object{m.server.objects, m.users} {
		s.number(len(objects))
		for _, uid := range slices.Sorted(maps.Keys(objects)) {
			o := objects[uid]
			s.object(o)
			for _, r := range o.refs {
				s.age(m.now, o.named[r].at)
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(m.storages)) {
		s.age(m.now, m.server.waited[uid])
		s.flag(m.orphaned[uid], m.server.orphaned[uid] != nil, m.server.orphaning[uid], m.server.forgotten[uid])
		for _, k := range kindsOf(m.storages[uid]) {
			if v, shown := m.graph.View(graph.Key{Resource: k.GroupResource(), UID: uid}); shown {
				s.text(k.Name, string(uid))
				s.record(v.Record)
				s.flag(v.HasDependents, v.Missing)
				if v.Record.WaitingForDependents() {
					s.age(m.now, v.Wait.Since)
				}
			}
		}
	}
	synced, _ := m.graph.Synced()
	s.age(m.now, synced)
	s.number(int(m.catalog))
	s.flag(m.discovered, m.stale, m.server.ending["n"])
	for _, mon := range m.monitors {
		s.flag(m.server.served[mon.kind], m.server.wasUnserved[mon.kind], m.server.hidden[mon.kind], mon.running, mon.draining, mon.broken, mon.deceived)
		s.number(mon.initial)
		s.flag(mon.listing, mon.successor, mon.suspended, mon.ended)
		s.age(m.now, mon.complete)
		s.number(len(mon.stream))
		for _, e := range mon.stream {
			s.number(int(e.what))
			s.record(e.rec)
		}
		s.number(len(mon.store))
		for _, n := range slices.SortedFunc(maps.Keys(mon.store), func(a, b nsName) int {
			return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
		}) {
			s.record(mon.store[n])
		}
	}
	// Small worlds have the namespace n and none.
	for _, namespace := range []string{"", "n"} {
		s.owners(m.graph.ViewOf(alphas.GroupResource(), &graph.Record{Namespace: namespace, UID: "probe", References: declared}).Owners, m.now)
	}
	for _, keys := range []map[graph.Key]bool{m.queue, m.delayed, m.orphans, m.orphansDelayed} {
		s.number(len(keys))
		for _, k := range sortedKeys(keys) {
			s.text(k.Resource.Group, k.Resource.Resource, string(k.UID))
		}
	}
	s.number(len(m.timers))
	for _, k := range slices.SortedFunc(maps.Keys(m.timers), compareKeys) {
		s.text(k.Resource.Group, k.Resource.Resource, string(k.UID))
		s.number(int(m.timers[k].Sub(m.now) / time.Millisecond))
	}
	for _, j := range m.workers {
		if j == nil {
			s.text("idle")
			continue
		}
		a := j.worker.(*attempt)
		s.text(a.key.Resource.Resource, string(a.key.UID))
		s.number(int(a.next))
		s.number(a.rounds)
		s.number(int(a.out))
		s.flag(a.answered, a.unread)
		s.record(a.live)
		s.object(a.target)
		s.record(a.view.Record)
		s.object(a.answer)
		s.owners(a.view.Owners, m.now)
		s.owners(a.toVerify, m.now)
		s.age(m.now, a.asked)
		s.age(m.now, a.decided)
		s.flag(a.orphaning, a.letting, a.over, a.unserved)
		s.number(a.searches)
		s.number(a.tries)
		s.number(len(a.toList))
		s.pass(m, a.pass)
		s.number(len(a.free))
		for _, d := range a.free {
			s.record(d.Record)
		}
		s.record(a.freeing)
		s.number(a.decision.Unverified)
		s.text(string(a.decision.Reason), string(a.decision.Policy))
		s.age(m.now, a.decision.Again)
		s.elapsed(m, a.went)
		s.refs(a.decision.Drop)
		for _, p := range a.proved {
			s.text(string(p.ref.UID), fmt.Sprint(p.at, p.fact.State, p.fact.Waiting), p.fact.Version)
			s.age(m.now, p.fact.Seen)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.freed), compareKeys) {
		s.text(k.Resource.Resource, string(k.UID))
		for _, d := range slices.SortedFunc(maps.Keys(m.freed[k]), compareKeys) {
			s.text(d.Resource.Resource, string(d.UID), m.freed[k][d])
		}
	}
	for _, namespace := range []string{"", "n"} {
		s.text(m.unlisted[namespace].Resource)
	}
	s.witnessed(m)
	s.ghosts(m)
	s.breaking(m)
	if m.timeout.Base > 0 {
		s.deadlines(m)
	}
	return sha256.Sum256(s.b)
}
