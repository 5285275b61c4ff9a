package model

import (
	"slices"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Where foreground deletions time out they do so after a minute, or later, for each
// descendant; in small worlds that would only multiply the states.
var (
	timeout      = decide.Timeout{Base: time.Minute, PerDependent: 20 * time.Second}
	smallTimeout = decide.Timeout{Base: time.Minute}
)

// options are what decisions depend on besides the object.
func (m *model) options() decide.Options { return decide.Options{Timeout: m.timeout} }

// deadline returns when an object in foreground deletion is given up on, as it looks
// now; the zero time for never.
func (m *model) deadline(k graph.Key) time.Time {
	v, shown := m.graph.View(k)
	if !shown || !v.Record.WaitingForDependents() {
		return time.Time{}
	}
	if s, surveyed := m.graph.Survey(k); surveyed {
		v.Survey = &s
	}
	deadline, _ := decide.Deadline(&v, m.options(), m.now)
	return deadline
}

// expire lets time pass until the deadline of an object in foreground deletion; false if
// it has none, or it has passed.
func (m *model) expire(k graph.Key) bool {
	deadline := m.deadline(k)
	if !deadline.After(m.now) {
		return false
	}
	m.pass(deadline.Sub(m.now))
	return true
}

// waiting returns the objects that the graph knows to be in foreground deletion.
func (m *model) waiting() (keys []graph.Key) {
	for _, n := range m.graph.Collecting() {
		if n.Record.WaitingForDependents() {
			keys = append(keys, n.Key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// noteWent notes, for the oracle, that the graph is about to be told of an object's end:
// that puts off the deadlines of the owners that it is known to have and to wait.
func (m *model) noteWent(k graph.Key) {
	gone, shown := m.graph.View(k)
	if !shown {
		return
	}
	f := m.truth(m.server.objects, m.now)
	for _, r := range gone.Record.References {
		for _, kind := range allKinds {
			owner := graph.Key{Resource: kind.GroupResource(), UID: r.UID}
			v, shown := m.graph.View(owner)
			if shown && v.Record.WaitingForDependents() && f.kindNamed(r) == kind {
				m.went[owner] = m.now
			}
		}
	}
}

// judgeTimeout judges that a foreground deletion is given up on, as was decided at a
// time, when a dependent was known to have gone last at another.
func (m *model) judgeTimeout(o *object, decided, went time.Time) {
	if m.timeout.Base == 0 {
		m.fail("the collector gives up on %s, and nothing times out", o.uid)
	}
	last := o.deletedAt.Truncate(time.Second)
	if went.After(last) {
		last = went
	}
	if decided.Before(last.Add(m.timeout.Base)) {
		m.fail("the collector gives up on %s %s after it was deleted or a dependent of it went", o.uid, decided.Sub(last))
	}
}
