package model

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// userStep takes a step of a user, or of an administrator who changes the served kinds. It returns false if the step is not
// possible now.
func (m *model) userStep(a action) bool {
	s := m.server
	o := s.objects[a.uid]
	switch a.op {
	case opCreate:
		_, taken := s.names[nameKey{a.kind.storage, a.namespace, a.name}]
		if taken || m.users[a.uid] != nil || !m.reachable(a.kind.storage) || s.ending[a.namespace] {
			return false
		}
		made := object{storage: a.kind.storage, namespace: a.namespace, name: a.name, uid: a.uid, refs: a.refs, held: a.held, timeout: a.timeout,
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
	case opEnd:
		if a.namespace == "" || s.ending[a.namespace] {
			return false
		}
		s.ending[a.namespace] = true
	case opEmpty:
		return m.empty(a.kind, a.namespace)
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
		m.unserve(a.kind, true)
	case opUnserve:
		if !s.served[a.kind] {
			return false
		}
		m.unserve(a.kind, false)
	case opServe:
		if s.served[a.kind] {
			return false
		}
		s.setServed(a.kind, true, false)
		mon := m.monitor(a.kind)
		mon.ended = mon.ended && mon.suspended // another definition has been created
	}
	return true
}

// empty deletes the objects of a kind in a namespace that is being deleted, as the namespace controller does: in the
// background, whatever was requested before. The namespace is gone once it is empty. empty returns false if there was
// nothing to do.
func (m *model) empty(k *kind, namespace string) bool {
	s := m.server
	if !s.ending[namespace] || !s.served[k] {
		return false
	}
	before, left := s.writes, false
	for _, uid := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[uid]
		if o.namespace == namespace && o.storage == k.storage {
			s.end(o, background)
			m.userDeleted(uid, o.held)
		}
		left = left || o.namespace == namespace && s.objects[uid] != nil
	}
	if !left {
		delete(s.ending, namespace)
		m.ends++
	}
	return s.writes != before || !left
}

// reachable reports whether users can write to the objects of a storage.
func (m *model) reachable(storage string) bool {
	return slices.ContainsFunc(allKinds, func(k *kind) bool { return k.storage == storage && m.server.served[k] })
}

// unserve makes a kind disappear; if ended is true, for good.
func (m *model) unserve(k *kind, ended bool) {
	m.server.setServed(k, false, ended)
	mon := m.monitor(k)
	mon.broken, mon.ended = true, mon.ended || ended
	m.graph.SetReadable(k.GroupResource(), false, m.now)
}

func (m *model) userDeleted(uid types.UID, held bool) {
	if !held {
		delete(m.users, uid)
		return
	}
	m.intend(uid, func(o *object) { o.deleting = true })
}

// intend records what a user has done to an object, unless the object was deleted by a user.
func (m *model) intend(uid types.UID, change func(*object)) {
	if o := m.users[uid]; o != nil {
		changed := *o
		change(&changed)
		m.users[uid] = &changed
	}
}
