package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// work is a step of a worker; false if it cannot be taken now.
func (m *model) work(a action) bool {
	switch a.op {
	case opBegin:
		return m.takeUp(a, m.queue, m.delayed, false)
	case opOrphan:
		return m.takeUp(a, m.orphans, m.orphansDelayed, true)
	case opStep:
		if m.workers[a.n] == nil {
			return false
		}
		m.workers[a.n].step(m, a.held)
		m.rest(a.n)
	}
	return true
}

// takeUp has a worker begin with an object of one of the two queues, or with one that had
// failed and waits for its delay to end.
func (m *model) takeUp(a action, queue, delayed map[graph.Key]bool, orphaning bool) bool {
	if m.workers[a.n] != nil || !queue[a.key] && !delayed[a.key] || m.underWay(a.key, orphaning) {
		return false
	}
	delete(queue, a.key)
	delete(delayed, a.key)
	if orphaning {
		m.workers[a.n] = beginOrphaning(m, a.key)
	} else {
		m.workers[a.n] = begin(m, a.key)
	}
	m.rest(a.n)
	return true
}

// rest ends a worker's attempt if it is over.
func (m *model) rest(n int) {
	a := m.workers[n]
	if a.next != idle {
		return
	}
	m.workers[n] = nil
	switch {
	case a.orphaning && a.turnOver:
		m.orphans[a.key] = true
	case a.turnOver:
		m.queue[a.key] = true
	case a.orphaning && a.failed:
		m.orphansDelayed[a.key] = true
	case a.orphaning:
	case a.failed:
		m.delayed[a.key] = true
	case !a.again.IsZero():
		if t, set := m.timers[a.key]; !set || a.again.Before(t) {
			m.timers[a.key] = a.again
		}
	}
}

func (m *model) underWay(k graph.Key, orphaning bool) bool {
	return slices.ContainsFunc(m.workers, func(a *attempt) bool { return a != nil && a.key == k && a.orphaning == orphaning })
}

func (m *model) consider(keys []graph.Key) {
	for _, k := range keys {
		m.queue[k] = true
	}
}

func sortedKeys(keys map[graph.Key]bool) []graph.Key {
	return slices.SortedFunc(maps.Keys(keys), compareKeys)
}

func compareKeys(a, b graph.Key) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Resource.String(), b.Resource.String()))
}
