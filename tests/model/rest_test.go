package model

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
)

// settle brings the world to rest without time passing: all events are delivered, discovery
// runs, all work is done, and failures are retried.
func (m *model) settle() {
	m.apply(action{op: opGoOn})
	for quiet := 0; quiet < 2 && m.wrong == nil; {
		writes, moved := m.server.writes, false
		for _, namespace := range slices.Sorted(maps.Keys(m.server.ending)) {
			for _, k := range allKinds {
				m.apply(action{op: opEmpty, kind: k, namespace: namespace})
			}
		}
		for m.apply(action{op: opResync}) {
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
		for working := true; working; {
			working = false
			for n := range m.workers {
				working = m.apply(action{op: opStep, n: n}) || working
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
		if m.breaking != nil || m.apply(action{op: opLook}) {
			for m.breaking != nil {
				m.apply(action{op: opBreak})
			}
		}
		// An attempt that always fails fails again and changes nothing.
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

// elapse lets time pass until nothing changes any more. From time to time the collector reads
// the owners again that no monitor shows.
func (m *model) elapse() {
	for quiet := 0; quiet < 2 && m.wrong == nil; quiet++ {
		writes := m.server.writes
		for _, k := range m.waiting() {
			// Both steps may take longer than the one after them, and the second longer than
			// the first: the deadline comes nearer as descendants go, and that queues no
			// object.
			m.judgeDeadline(k)
			m.apply(action{op: opExpire, key: k})
			m.pass(max(0, m.timers[k].Sub(m.now)))
		}
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

// compare compares the outcome with the oracle.
func (m *model) compare() error {
	if m.wrong != nil {
		return m.wrong
	}
	if !m.plain {
		return errors.Join(m.truth(m.server.objects, m.now).atRest()...)
	}
	return errors.Join(append(m.truth(m.users, m.now).compare(m.server.objects), m.truth(m.server.objects, m.now).atRest()...)...)
}
