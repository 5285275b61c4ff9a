package model

import (
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// which is a set of kinds, with a bit for each of allKinds. catalogs holds the result of
// discovery for each set of served kinds.
type which int

var catalogs = func() (all []*graph.Catalog) {
	for set := which(0); set < 1<<len(allKinds); set++ {
		var served []*graph.Resource
		for i, k := range allKinds {
			if set&(1<<i) != 0 {
				served = append(served, k.Resource)
			}
		}
		all = append(all, graph.NewCatalog(served))
	}
	return all
}()

// observe takes a step of monitors or discovery. It returns false if the step is not
// possible now.
func (m *model) observe(a action) bool {
	s := m.server
	switch a.op {
	case opDeliver:
		mon := m.monitor(a.kind)
		if len(mon.stream) == 0 {
			return false
		}
		m.witness(mon)
		m.consider(mon.deliver(m.graph, m.now))
	case opRelist:
		mon := m.monitor(a.kind)
		if !mon.running || mon.draining || !s.served[a.kind] {
			return false
		}
		m.graph.SetReadable(a.kind.GroupResource(), true, m.now)
		mon.relist(s, a.n, a.held)
		m.consider(mon.arrived(m.graph, m.now))
	case opSweep:
		mon := m.monitor(a.kind)
		if !mon.running || mon.draining || mon.broken || !s.served[a.kind] {
			return false
		}
		m.consider(mon.start(s, m.graph, m.now))
	case opResync:
		return m.resync()
	case opRetire:
		mon := m.monitor(a.kind)
		if !mon.draining {
			return false
		}
		m.consider(mon.retire(m.graph, m.now))
		if !mon.suspended {
			m.unwitness(mon.kind)
		}
	}
	return true
}

func (m *model) monitor(k *kind) *monitor {
	return m.monitors[slices.IndexFunc(m.monitors, func(mon *monitor) bool { return mon.kind == k })]
}

// resync runs discovery, as pkg/gc/observe does. It returns false if nothing has changed.
func (m *model) resync() bool {
	changed := false
	var served which
	for i, k := range allKinds {
		if m.server.served[k] {
			served |= 1 << i
		}
	}
	if !m.discovered || served != m.catalog {
		m.catalog, m.discovered, changed = served, true, true
		m.consider(m.graph.SetCatalog(catalogs[served], m.now))
	}
	for _, mon := range m.monitors {
		if mon.forgettable() {
			m.consider(mon.forget(m.graph, m.now))
			m.unwitness(mon.kind)
			changed = true
		}
		switch {
		case m.server.served[mon.kind] && mon.kind.Monitored && !mon.running:
			m.consider(mon.start(m.server, m.graph, m.now))
			changed = true
		case !m.server.served[mon.kind] && mon.running && !mon.draining:
			mon.draining, changed = true, true
		}
	}
	return changed
}
