package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// If foreground deletions time out, they do so after a minute, plus a time for each
// descendant. In small worlds that would only multiply the states.
var (
	timeout      = decide.Timeout{Base: time.Minute, PerDependent: 20 * time.Second}
	smallTimeout = decide.Timeout{Base: time.Minute}
)

// options returns what decisions depend on besides the object.
func (m *model) options() decide.Options {
	return decide.Options{Timeout: m.timeout, Pauses: m.pauses}
}

// deadline returns when the collector would give up on an object in foreground deletion, by
// its present state; the zero time for never.
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

// expire lets time pass until the deadline of an object in foreground deletion. It returns
// false if there is no deadline or it has passed.
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

// noteWent records, for the oracle, that the graph is about to learn of an object's end.
// That extends the deadlines of those of its owners that the graph knows to wait.
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
			if shown && v.Record.WaitingForDependents() && f.kindNamed(r) == kind && !m.server.follows(k.UID, r.UID) {
				m.went[owner] = m.now
			}
		}
	}
}

// follows reports whether an object was created after another was deleted, in seconds, as timestamps are: a deletion does not
// wait longer for it.
func (s *server) follows(created, deleted types.UID) bool {
	at, was := s.deleted[deleted]
	return was && s.born[created].Unix() > at.Unix()
}

// base returns an object's timeout, from which the oracle computes a deadline of its own; 0
// for none.
func (m *model) base(o *object) time.Duration {
	switch {
	case o.timeout == graph.NoTimeout:
		return 0
	case o.timeout != 0:
		return o.timeout
	}
	return m.timeout.Base
}

// judgeTimeout judges a decision to give up on a foreground deletion. decided is the time of
// the decision, went the time when a dependent was last known to have gone. Every object that
// was certainly known by then must have had its time, in which pauses do not count.
func (m *model) judgeTimeout(o *object, decided, went time.Time) {
	base := m.base(o)
	if base == 0 {
		m.fail("the collector gives up on %s, which does not time out", o.uid)
	}
	last := o.deletedAt.Truncate(time.Second)
	if went.After(last) {
		last = went
	}
	below := m.knownBelow(o, decided)
	due := last.Add(base + m.pausedBetween(last, decided) + time.Duration(below)*m.timeout.PerDependent)
	if decided.Before(due) {
		m.fail("the collector gives up on %s %s after it was deleted or a dependent of it went, with %d below it and a timeout of %s, %s before it is due", o.uid, decided.Sub(last), below, base, due.Sub(decided))
	}
}

// knownBelow counts the objects below one that the graph must have known at a time, and that existed when it was deleted.
func (m *model) knownBelow(o *object, at time.Time) int {
	below := []types.UID{o.uid}
	for i := 0; i < len(below); i++ {
		for uid, d := range m.server.objects {
			if !slices.Contains(below, uid) && !m.server.follows(uid, o.uid) && slices.ContainsFunc(d.refs, func(r graph.Reference) bool { return r.UID == below[i] && m.known(d, r, at) }) {
				below = append(below, uid)
			}
		}
	}
	return len(below) - 1
}

// judgeDeadline judges the time at which the collector plans to give up on an object that
// waits. It must plan one if the object times out, and none later than if the last of the
// known objects had gone now.
func (m *model) judgeDeadline(k graph.Key) {
	o := m.server.objects[k.UID]
	if o == nil || !o.waits() {
		return
	}
	deadline, base := m.deadline(k), m.base(o)
	if deadline.IsZero() != (base == 0) {
		m.fail("the deadline of %s is %s, and its timeout %s", k.UID, deadline, base)
	}
	latest := m.now.Add(base + m.pausedBetween(epoch, m.now) + time.Duration(m.graph.Stats().Nodes)*m.timeout.PerDependent)
	if deadline.After(latest) {
		m.fail("the deadline of %s is %s after the latest that it can be", k.UID, deadline.Sub(latest))
	}
}
