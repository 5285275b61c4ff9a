package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// work takes a step of a worker. It returns false if the step is not possible now.
func (m *model) work(a action) bool {
	switch a.op {
	case opBegin:
		return m.takeUp(a, m.queue, m.delayed, false)
	case opOrphan:
		return m.takeUp(a, m.orphans, m.orphansDelayed, true)
	case opStep:
		if m.workers[a.n] == nil || !m.workers[a.n].step(m, a.choice, a.held) {
			return false
		}
		m.rest()
	}
	return true
}

// worker is one attempt: of the real code, or of its copy.
type worker interface {
	// choices returns how many calls are under way.
	choices() int
	// step makes the nth call or processes its answer. It returns false if there is none.
	// fault makes a call fail: a read before it is sent, a write after it was done.
	step(m *model, n int, fault bool) bool
	// ended reports whether the attempt is over, and updates the queues accordingly.
	ended(m *model) bool
}

// job is the attempt that a worker makes.
type job struct {
	worker
	key       graph.Key
	orphaning bool
}

// takeUp has a worker begin with an object of one of the two queues, or with a failed one
// that waits for its delay to end.
func (m *model) takeUp(a action, queue, delayed map[graph.Key]bool, orphaning bool) bool {
	if m.halted || m.workers[a.n] != nil || !queue[a.key] && !delayed[a.key] || m.underWay(a.key, orphaning) {
		return false
	}
	delete(queue, a.key)
	delete(delayed, a.key)
	j := &job{key: a.key, orphaning: orphaning}
	switch {
	case m.real != nil:
		j.worker = m.real.begin(m, &turn{key: a.key, orphaning: orphaning})
	case orphaning:
		j.worker = beginOrphaning(m, a.key)
	default:
		j.worker = begin(m, a.key)
	}
	m.workers[a.n] = j
	m.rest()
	return true
}

// rest frees the workers whose attempts are over. One attempt may end another.
func (m *model) rest() {
	for n, j := range m.workers {
		if j != nil && j.ended(m) {
			m.workers[n] = nil
		}
	}
}

// ended puts the object into the queues, as pkg/gc/pool.go does.
func (a *attempt) ended(m *model) bool {
	if a.next != idle {
		return false
	}
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
	case a.again.IsZero():
	case a.again.After(m.now):
		wake(m.timers, a.key, a.again)
	default:
		m.queue[a.key] = true
	}
	return true
}

func (m *model) underWay(k graph.Key, orphaning bool) bool {
	return slices.ContainsFunc(m.workers, func(j *job) bool { return j != nil && j.key == k && j.orphaning == orphaning })
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
