package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// truth returns the facts by which the oracle judges the collector's next write, which was
// decided on at the given time.
func (m *model) truth(objects map[types.UID]*object, decided time.Time) *facts {
	return &facts{
		objects: objects, served: m.server.served, wasUnserved: m.server.wasUnserved, witnessed: m.witnessed, orphaned: m.server.orphaned, forgotten: m.server.forgotten, orphaning: m.server.orphaning,
		detects: m.detects, timesOut: func(o *object) bool { return m.base(o) > 0 }, hidden: m.server.hidden, ghosts: m.server.ghosts,
		waited: func(uid types.UID) bool {
			t, did := m.server.waited[uid]
			return did && (t.After(decided.Add(-decide.WaitingFor)) || t.After(decided.Add(-decide.WaitingShown)) && !m.shownBy(uid, t, decided))
		},
	}
}

// shownBy reports whether a change of an object at one time had been shown before another
// time by every monitor of the object.
func (m *model) shownBy(uid types.UID, at, by time.Time) bool {
	return !slices.ContainsFunc(m.monitors, func(mon *monitor) bool {
		return mon.kind.storage == m.storages[uid] && (mon.running || mon.suspended) && (mon.complete.Before(at) || !mon.complete.Before(by))
	})
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
		m.userDeleted(o.uid, true) // from now on it only waits for its finalizer to go
	}
}

// known reports whether the graph must have a reference of d at the time now: it had arrived
// before.
func (m *model) known(d *object, r graph.Reference, now time.Time) bool {
	return slices.ContainsFunc(m.monitors, func(mon *monitor) bool {
		return mon.kind.storage == d.storage && (mon.running || mon.suspended) && !mon.complete.IsZero() && mon.complete.Before(now) && !d.named[r].at.After(mon.complete)
	})
}

func (m *model) judgeDrop(o *object, drop []graph.Reference, decided time.Time) {
	m.drops++
	if err := m.truth(m.server.objects, decided).mayDrop(o, drop); err != nil {
		m.fail("the collector drops references of %s: %v", o.uid, err)
	}
}

// judgeRelease judges the end of a foreground deletion. decided is the time of the decision,
// went the time when a dependent was last known to have gone. Past its deadline, a deletion
// may end whatever blocks it.
func (m *model) judgeRelease(o *object, decided, went time.Time, late bool) {
	m.releases++
	if late {
		m.timedOut++
		m.judgeTimeout(o, decided, went)
		return
	}
	f := m.truth(m.server.objects, decided)
	for _, d := range m.server.objects {
		if f.blocks(d, o, func(r graph.Reference) bool {
			// The graph need not know yet that a kind is no longer served.
			k := f.kindNamed(r)
			// Only the monitor of that kind shows that this is a name of the owner.
			shown := k == nil || (m.monitor(k).running || m.monitor(k).suspended) && m.monitor(k).complete.Before(decided) && !d.named[r].at.After(m.monitor(k).complete)
			return shown && m.known(d, r, decided) && (k == nil || f.names(d, r, o))
		}) {
			m.fail("the collector lets %s go, which %s blocks", o.uid, d.uid)
		}
	}
}

// judgeUnblock judges a write that unsets blockOwnerDeletion. At some moment since the search
// for rings began, this very state of the object, and the references that are unset, must
// have been in a ring. More cannot be required: a user may take a ring apart between the last
// read and the first write.
func (m *model) judgeUnblock(o *object, unblock []graph.Reference) {
	m.unblocks++
	for _, r := range unblock {
		if !m.within[within{o.uid, o.version, r}] {
			m.fail("the collector cuts a chain: %s no longer blocks %s", o.uid, r.UID)
		}
	}
}

// judgeOrphaned judges the end of an orphaning after its last search. last is nil if there
// was nothing to search.
func (m *model) judgeOrphaned(o *object, last *pass) {
	m.orphanings++
	f := m.truth(m.server.objects, m.now)
	for _, d := range m.server.objects {
		listed := last != nil && slices.ContainsFunc(last.searched, func(r *graph.Resource) bool { return kindOf(r.GroupResource()).storage == d.storage })
		if listed && slices.ContainsFunc(d.refs, func(r graph.Reference) bool { return f.names(d, r, o) && d.named[r].write <= last.writes }) {
			m.fail("the collector lets %s go, which is to be orphaned and which %s names", o.uid, d.uid)
		}
	}
	was := *o
	m.server.orphaned[o.uid] = &was
}
