package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// epoch is when every world begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// model is a world: the server, what watches it, the graph and the workers, and
// beside them what the users alone have done.
type model struct {
	server   *server
	monitors []*monitor
	graph    *graph.Graph
	catalog  string // the kinds that the graph's catalog has
	queue    map[graph.Key]bool
	delayed  map[graph.Key]bool // failed, to be tried again
	// orphans and orphansDelayed are the same for attempts to orphan.
	orphans, orphansDelayed map[graph.Key]bool
	// orphaned is what the collector remembers of owners that it has orphaned.
	orphaned map[types.UID]bool
	// plain is true while nobody has asked for another deletion than background.
	plain bool
	// storages says what every object is, or was.
	storages  map[types.UID]string
	timers    map[graph.Key]time.Time
	workers   []*attempt // nil: idle
	now       time.Time
	users     map[types.UID]*object // the server's objects, had nothing been collected
	witnessed map[[2]types.UID]witness
	// checkEvery is how often the graph's invariants are verified, in steps.
	checkEvery, steps                           int
	deletes, drops, releases, orphanings, frees int
	// stale is true once the graph has been told of an owner's presence after its end,
	// and had no proof of the end: nothing named the owner when its DELETED event
	// came. It is believed for decide.RecheckAfter; nobody could know better.
	stale bool
	// wrong is what went wrong first.
	wrong error
}

func newModel(workers, checkEvery int) *model {
	m := &model{
		server: newServer(), graph: graph.New(), now: epoch, checkEvery: checkEvery,
		queue: map[graph.Key]bool{}, delayed: map[graph.Key]bool{}, orphans: map[graph.Key]bool{}, orphansDelayed: map[graph.Key]bool{},
		orphaned: map[types.UID]bool{}, plain: true, storages: map[types.UID]string{}, timers: map[graph.Key]time.Time{},
		workers: make([]*attempt, workers), users: map[types.UID]*object{}, witnessed: map[[2]types.UID]witness{},
	}
	for _, k := range allKinds {
		m.monitors = append(m.monitors, &monitor{kind: k})
	}
	m.server.tell = func(o *object, ended bool) {
		for _, mon := range m.monitors {
			if mon.kind.storage == o.storage {
				mon.receive(o, ended)
			}
		}
	}
	return m
}

// op is a kind of step.
type op string

const (
	opCreate  op = "create"  // a user: uid, kind, namespace, name, refs, held
	opDelete  op = "delete"  // a user: uid, policy
	opEdit    op = "edit"    // a user: uid, refs
	opRelease op = "release" // a user: uid; the foreign finalizer goes
	opHold    op = "hold"    // a user: uid; it gets a foreign finalizer
	opStrip   op = "strip"   // a user: uid; the collector's finalizers go
	opPurge   op = "purge"   // a CRD goes: its objects first, then the kind
	opUnserve op = "unserve" // a kind is no longer served; its objects stay unseen
	opServe   op = "serve"
	opDeliver op = "deliver"         // a monitor's next event reaches the graph
	opRelist  op = "relist"          // a monitor loses all but n undelivered events, and lists; held: nothing
	opSweep   op = "sweep"           // a monitor is replaced by a new one
	opResync  op = "resync"          // discovery is asked
	opRetire  op = "retire"          // a monitor whose kind has gone is stopped
	opBegin   op = "begin"           // a worker n takes key from the queue
	opStep    op = "step"            // worker n goes on; held: the call fails
	opTick    op = "tick"            // n minutes pass
	opPause   op = "pause"           // n quarters of a second pass, after all that was sent has arrived
	opOrphan  op = "begin orphaning" // worker n takes key from the queue of those
)

// action is one step, as a value: a history can be replayed and cut down.
type action struct {
	op              op
	kind            *kind
	uid             types.UID
	namespace, name string
	refs            []graph.Reference
	held            bool
	n               int
	key             graph.Key
	policy          policy
}

func (a action) String() string {
	var b strings.Builder
	b.WriteString(string(a.op))
	if a.kind != nil {
		fmt.Fprintf(&b, " %s", a.kind)
	}
	if a.op == opCreate {
		fmt.Fprintf(&b, " %q/%q", a.namespace, a.name)
	}
	if a.uid != "" {
		fmt.Fprintf(&b, " %s", a.uid)
	}
	if a.op == opCreate || a.op == opEdit {
		b.WriteString(" refs")
		for _, r := range a.refs {
			fmt.Fprintf(&b, " [%s %s %s uid %s%s]", r.APIVersion, r.Kind, r.Name, r.UID, map[graph.Flag]string{graph.True: " blocking"}[r.BlockOwnerDeletion])
		}
	}
	if a.key != (graph.Key{}) {
		fmt.Fprintf(&b, " %s %s", a.key.Resource, a.key.UID)
	}
	if a.policy != "" {
		fmt.Fprintf(&b, " %s", a.policy)
	}
	switch a.op {
	case opRelist, opBegin, opOrphan, opStep, opTick, opPause:
		fmt.Fprintf(&b, " %d", a.n)
	}
	if a.held {
		b.WriteString(map[op]string{opCreate: " held", opStep: " fault", opRelist: " empty"}[a.op])
	}
	return b.String()
}

// apply takes a step; false if it cannot be taken now.
func (m *model) apply(a action) bool {
	if !m.take(a) {
		return false
	}
	if m.steps++; m.checkEvery > 0 && m.steps%m.checkEvery == 0 {
		m.check()
	}
	return true
}

func (m *model) check() {
	if err := m.graph.Check(); err != nil {
		m.fail("the graph's invariants are broken: %v", err)
	}
}

func (m *model) fail(format string, args ...any) {
	if m.wrong == nil {
		m.wrong = fmt.Errorf(format, args...)
	}
}

func (m *model) monitor(k *kind) *monitor {
	return m.monitors[slices.IndexFunc(m.monitors, func(mon *monitor) bool { return mon.kind == k })]
}

// reachable is true if users can write to objects of a storage.
func (m *model) reachable(storage string) bool {
	return slices.ContainsFunc(allKinds, func(k *kind) bool { return k.storage == storage && m.server.served[k] })
}

func (m *model) take(a action) bool {
	s := m.server
	o := s.objects[a.uid]
	switch a.op {
	case opCreate:
		_, taken := s.names[nameKey{a.kind.storage, a.namespace, a.name}]
		if taken || m.users[a.uid] != nil || !m.reachable(a.kind.storage) {
			return false
		}
		made := object{storage: a.kind.storage, namespace: a.namespace, name: a.name, uid: a.uid, refs: a.refs, held: a.held,
			foreground: a.policy == foreground, orphan: a.policy == orphan}
		m.plain = m.plain && !made.foreground && !made.orphan
		s.put(made)
		m.users[a.uid] = &made
		m.storages[a.uid] = made.storage
	case opDelete:
		if o == nil || !m.reachable(o.storage) {
			return false
		}
		m.plain = m.plain && (a.policy == "" || a.policy == background)
		s.end(o, a.policy)
		m.userDeleted(a.uid, o.held)
	case opEdit:
		if o == nil || !m.reachable(o.storage) {
			return false
		}
		edited := *o
		edited.refs = a.refs
		s.put(edited)
		m.intend(a.uid, func(o *object) { o.refs = a.refs })
	case opRelease:
		if o == nil || !o.held || !m.reachable(o.storage) {
			return false
		}
		released := *o
		released.held = false
		m.intend(a.uid, func(o *object) { o.held = false })
		if o.deleting {
			delete(m.users, a.uid)
		}
		s.put(released)
	case opHold:
		if o == nil || o.held || o.deleting || !m.reachable(o.storage) {
			return false
		}
		held := *o
		held.held = true
		m.intend(a.uid, func(o *object) { o.held = true })
		s.put(held)
	case opStrip:
		if o == nil || !o.foreground && !o.orphan || !m.reachable(o.storage) {
			return false
		}
		stripped := *o
		stripped.foreground, stripped.orphan = false, false
		s.put(stripped)
	case opPurge:
		if !s.served[a.kind] {
			return false
		}
		for _, uid := range slices.Sorted(maps.Keys(s.objects)) {
			if o := s.objects[uid]; o.storage == a.kind.storage {
				s.remove(o)
				delete(m.users, uid)
			}
		}
		m.unserve(a.kind)
	case opUnserve:
		if !s.served[a.kind] {
			return false
		}
		m.unserve(a.kind)
	case opServe:
		if s.served[a.kind] {
			return false
		}
		s.setServed(a.kind, true)
	case opDeliver:
		mon := m.monitor(a.kind)
		if len(mon.stream) == 0 {
			return false
		}
		m.witness(mon)
		m.consider(mon.deliver(m.graph))
	case opRelist:
		mon := m.monitor(a.kind)
		if !mon.running || mon.draining || !s.served[a.kind] {
			return false
		}
		mon.relist(s, a.n, a.held)
	case opSweep:
		mon := m.monitor(a.kind)
		if !mon.running || mon.draining || mon.broken || !s.served[a.kind] {
			return false
		}
		m.consider(mon.restart(s, m.graph))
	case opResync:
		return m.resync()
	case opRetire:
		mon := m.monitor(a.kind)
		if !mon.draining {
			return false
		}
		for p := range m.witnessed {
			// Its objects are no longer known, and with them what they made known.
			if m.storages[p[0]] == mon.kind.storage {
				delete(m.witnessed, p)
			}
		}
		m.consider(mon.retire(m.graph))
	case opBegin:
		if m.workers[a.n] != nil || !m.queue[a.key] && !m.delayed[a.key] || m.underWay(a.key, false) {
			return false
		}
		delete(m.queue, a.key)
		delete(m.delayed, a.key)
		m.workers[a.n] = begin(m, a.key)
		m.rest(a.n)
	case opOrphan:
		if m.workers[a.n] != nil || !m.orphans[a.key] && !m.orphansDelayed[a.key] || m.underWay(a.key, true) {
			return false
		}
		delete(m.orphans, a.key)
		delete(m.orphansDelayed, a.key)
		m.workers[a.n] = beginOrphaning(m, a.key)
		m.rest(a.n)
	case opStep:
		if m.workers[a.n] == nil {
			return false
		}
		m.workers[a.n].step(m, a.held)
		m.rest(a.n)
	case opTick:
		m.pass(time.Duration(a.n) * time.Minute)
	case opPause:
		for _, mon := range m.monitors {
			for len(mon.stream) > 0 {
				m.witness(mon)
				m.consider(mon.deliver(m.graph))
			}
		}
		m.pass(time.Duration(a.n) * 250 * time.Millisecond)
	}
	return true
}

// pass lets time pass.
func (m *model) pass(d time.Duration) {
	for _, mon := range m.monitors {
		if mon.healthy() && len(mon.stream) == 0 && d > 0 {
			mon.complete, mon.initial = m.now, 0
		}
	}
	m.now = m.now.Add(d)
	m.server.now = m.now
	for k, t := range m.timers {
		if !t.After(m.now) {
			delete(m.timers, k)
			m.queue[k] = true
		}
	}
}

// intend notes what a user has done to an object, unless he has deleted it.
func (m *model) intend(uid types.UID, change func(*object)) {
	if o := m.users[uid]; o != nil {
		changed := *o
		change(&changed)
		m.users[uid] = &changed
	}
}

// synced is pkg/gc/observe's Settled: a monitor that cannot list does not count.
func (m *model) synced() bool {
	return !slices.ContainsFunc(m.monitors, func(mon *monitor) bool {
		return mon.running && !mon.draining && !mon.broken && mon.initial > 0
	})
}

func (m *model) unserve(k *kind) {
	m.server.setServed(k, false)
	m.monitor(k).broken = true
}

func (m *model) userDeleted(uid types.UID, held bool) {
	if !held {
		delete(m.users, uid)
		return
	}
	m.intend(uid, func(o *object) { o.deleting = true })
}

func (m *model) consider(keys []graph.Key) {
	for _, k := range keys {
		m.queue[k] = true
	}
}

func (m *model) underWay(k graph.Key, orphaning bool) bool {
	return slices.ContainsFunc(m.workers, func(a *attempt) bool { return a != nil && a.key == k && a.orphaning == orphaning })
}

// rest ends a worker's attempt if it is over.
func (m *model) rest(n int) {
	a := m.workers[n]
	if a.next != idle {
		return
	}
	m.workers[n] = nil
	switch {
	case a.orphaning && a.failed:
		m.orphansDelayed[a.key] = true
	case a.orphaning:
		if !a.again.IsZero() {
			m.orphans[a.key] = true
		}
	case a.failed:
		m.delayed[a.key] = true
	case !a.again.IsZero():
		if t, set := m.timers[a.key]; !set || a.again.Before(t) {
			m.timers[a.key] = a.again
		}
	}
}

// resync asks discovery, as pkg/gc/observe does; false if it says what it said before.
func (m *model) resync() bool {
	var served []*graph.Resource
	var names []string
	for _, k := range allKinds {
		if m.server.served[k] {
			served = append(served, k.Resource)
			names = append(names, k.Name)
		}
	}
	changed := false
	if list := strings.Join(names, " "); list != m.catalog {
		m.catalog, changed = list, true
		m.consider(m.graph.SetCatalog(graph.NewCatalog(served)))
	}
	for _, mon := range m.monitors {
		switch {
		case m.server.served[mon.kind] && mon.kind.Monitored && !mon.running:
			mon.start(m.server, m.graph)
			changed = true
		case !m.server.served[mon.kind] && mon.running && !mon.draining:
			mon.draining, changed = true, true
		}
	}
	return changed
}

// witness notes what the next event of a monitor lets the graph know for good.
func (m *model) witness(mon *monitor) {
	e := mon.stream[0]
	uid := e.rec.UID
	// What is known of an owner lasts while this dependent names it.
	for p := range m.witnessed {
		if p[0] == uid && (e.what != shown || !refersTo(e.rec, p[1])) {
			delete(m.witnessed, p)
		}
	}
	if e.what != ended {
		return
	}
	for _, other := range m.monitors {
		for _, d := range other.store {
			if d.UID != uid && refersTo(d, uid) {
				p := [2]types.UID{d.UID, uid}
				if mon.kind == mirrors && m.witnessed[p].kind != nil {
					continue // both names of the kind have shown it; one is enough
				}
				m.witnessed[p] = witness{mon.kind, e.rec.Namespace, e.rec.Name}
			}
		}
	}
}

func refersTo(r *graph.Record, uid types.UID) bool {
	return slices.ContainsFunc(r.References, func(ref graph.Reference) bool { return ref.UID == uid })
}

// truth is what the oracle judges the collector's next write by, which was decided
// on at a time.
func (m *model) truth(objects map[types.UID]*object, decided time.Time) *facts {
	return &facts{
		objects: objects, served: m.server.served, wasUnserved: m.server.wasUnserved, witnessed: m.witnessed, orphaned: m.server.orphaned, forgotten: m.server.forgotten, orphaning: m.server.orphaning,
		waited: func(uid types.UID) bool {
			t, did := m.server.waited[uid]
			return did && t.After(decided.Add(-decide.WaitingFor))
		},
	}
}

func (m *model) judgeDelete(o *object, p policy, decided time.Time) {
	m.deletes++
	f := m.truth(m.server.objects, decided)
	if err := f.mayDelete(o); err != nil {
		m.fail("the collector deletes %s: %v", o.uid, err)
	}
	forWaiting := slices.ContainsFunc(o.refs, func(r graph.Reference) bool { return f.judge(o, r) == waiting && m.server.objects[r.UID].waits() })
	if forWaiting && p != foreground {
		for _, d := range m.server.objects {
			if d.uid != o.uid && slices.ContainsFunc(d.refs, func(r graph.Reference) bool { return f.names(d, r, o) && m.known(d, r, decided) }) {
				m.fail("the collector deletes %s, and not in the foreground: a waiting owner is left before %s, which it owns", o.uid, d.uid)
			}
		}
	}
	if o.held {
		m.userDeleted(o.uid, true) // from now on it only waits to be let go
	}
}

// known is true if the graph must have a reference of d at a time: it had arrived
// before the time came.
func (m *model) known(d *object, r graph.Reference, now time.Time) bool {
	return slices.ContainsFunc(m.monitors, func(mon *monitor) bool {
		return mon.kind.storage == d.storage && mon.running && !mon.complete.IsZero() && mon.complete.Before(now) && !d.named[r].at.After(mon.complete)
	})
}

func (m *model) judgeDrop(o *object, drop []graph.Reference, decided time.Time) {
	m.drops++
	if err := m.truth(m.server.objects, decided).mayDrop(o, drop); err != nil {
		m.fail("the collector drops references of %s: %v", o.uid, err)
	}
}

// judgeRelease judges the end of a foreground deletion that was decided on at a time.
func (m *model) judgeRelease(o *object, decided time.Time) {
	m.releases++
	f := m.truth(m.server.objects, decided)
	for _, d := range m.server.objects {
		if f.blocks(d, o, func(r graph.Reference) bool {
			// That a kind has ceased to be served need not be known yet.
			k := f.kindNamed(r)
			// And that this is a name of the owner's is known from the monitor of that kind.
			shown := k == nil || m.monitor(k).running && m.monitor(k).complete.Before(decided) && !d.named[r].at.After(m.monitor(k).complete)
			return shown && m.known(d, r, decided) && (k == nil || f.names(d, r, o))
		}) {
			m.fail("the collector lets %s go, which %s blocks", o.uid, d.uid)
		}
	}
}

// judgeOrphaned judges the end of an orphaning, whose last search, of these
// resources, began after so many writes.
func (m *model) judgeOrphaned(o *object, searched []*graph.Resource, writes int) {
	m.orphanings++
	f := m.truth(m.server.objects, m.now)
	for _, d := range m.server.objects {
		listed := slices.ContainsFunc(searched, func(r *graph.Resource) bool { return kindOf(r.GroupResource()).storage == d.storage })
		if listed && slices.ContainsFunc(d.refs, func(r graph.Reference) bool { return f.names(d, r, o) && d.named[r].write <= writes }) {
			m.fail("the collector lets %s go, which is to be orphaned and which %s names", o.uid, d.uid)
		}
	}
	was := *o
	m.server.orphaned[o.uid] = &was
}

// fact returns what the graph has about an owner at a place.
func (m *model) fact(o graph.OwnerView) graph.Fact {
	return m.graph.ViewOf(alphas.GroupResource(), &graph.Record{Namespace: o.At.Namespace, References: []graph.Reference{o.Reference}}).Owners[0].Fact
}

// settle lets the world come to rest without time passing: everything is
// delivered, discovered and worked off, and failures are tried again.
func (m *model) settle() {
	for quiet := 0; quiet < 2 && m.wrong == nil; {
		writes, moved := m.server.writes, false
		for m.resync() {
			moved = true
		}
		for _, mon := range m.monitors {
			if (mon.broken || mon.deceived) && mon.running && !mon.draining {
				moved = m.apply(action{op: opRelist, kind: mon.kind}) || moved
			}
			for len(mon.stream) > 0 {
				moved = m.apply(action{op: opDeliver, kind: mon.kind}) || moved
			}
			moved = m.apply(action{op: opRetire, kind: mon.kind}) || moved
		}
		for n, a := range m.workers {
			for ; a != nil; a = m.workers[n] {
				m.apply(action{op: opStep, n: n})
			}
		}
		for len(m.queue)+len(m.orphans) > 0 && m.wrong == nil {
			moved = true
			for _, k := range sortedKeys(m.orphans) {
				m.apply(action{op: opOrphan, key: k})
				for m.workers[0] != nil {
					m.apply(action{op: opStep})
				}
			}
			for _, k := range sortedKeys(m.queue) {
				m.apply(action{op: opBegin, key: k})
				for m.workers[0] != nil {
					m.apply(action{op: opStep})
				}
			}
		}
		// What fails for good fails again and moves nothing.
		maps.Copy(m.queue, m.delayed)
		maps.Copy(m.orphans, m.orphansDelayed)
		clear(m.delayed)
		clear(m.orphansDelayed)
		if moved = moved && len(m.queue)+len(m.orphans) == 0 || m.server.writes != writes; moved {
			quiet = 0
		} else {
			quiet++
		}
	}
	m.check()
}

// elapse lets time pass until that changes nothing any more: owners that no
// monitor shows are looked at again from time to time.
func (m *model) elapse() {
	for quiet := 0; quiet < 2 && m.wrong == nil; quiet++ {
		writes := m.server.writes
		for _, k := range allKinds {
			m.apply(action{op: opSweep, kind: k})
		}
		m.apply(action{op: opTick, n: int(decide.RecheckAfter/time.Minute) + 1})
		m.settle()
		if m.server.writes != writes {
			quiet = -1
		}
	}
}

// compare holds the outcome against the oracle.
func (m *model) compare() error {
	if m.wrong != nil {
		return m.wrong
	}
	if !m.plain {
		return errors.Join(m.truth(m.server.objects, m.now).atRest()...)
	}
	return errors.Join(append(m.truth(m.users, m.now).compare(m.server.objects), m.truth(m.server.objects, m.now).atRest()...)...)
}

func sortedKeys(keys map[graph.Key]bool) []graph.Key {
	return slices.SortedFunc(maps.Keys(keys), compareKeys)
}

func compareKeys(a, b graph.Key) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Resource.String(), b.Resource.String()))
}
