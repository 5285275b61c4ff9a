package model

import (
	"maps"
	"slices"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// A deadline passes at any moment: what pkg/gc/deadline.go counts is not simulated,
// except that progress puts a deadline off.

// inTime is a deadline that has not passed, in any world.
var inTime = epoch.Add(100_000 * time.Hour)

func (m *model) deadline(k graph.Key) time.Time {
	if m.isLate(k) {
		return m.now
	}
	return inTime
}

func (m *model) isLate(k graph.Key) bool {
	progress, late := m.late[k]
	w, waits := m.graph.Wait(k)
	return late && waits && w.Progress == progress
}

// expire makes the deadline of an object in foreground deletion pass; false if it has
// none.
func (m *model) expire(k graph.Key) bool {
	w, waits := m.graph.Wait(k)
	if !m.timeouts || !waits || m.isLate(k) {
		return false
	}
	m.late[k] = w.Progress
	if m.timers[k].Equal(inTime) {
		delete(m.timers, k)
		m.queue[k] = true
	}
	return true
}

// waiting returns the objects that the graph knows to be in foreground deletion.
func (m *model) waiting() (keys []graph.Key) {
	for _, uid := range slices.Sorted(maps.Keys(m.storages)) {
		for _, k := range kindsOf(m.storages[uid]) {
			key := graph.Key{Resource: k.GroupResource(), UID: uid}
			if _, waits := m.graph.Wait(key); waits {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
