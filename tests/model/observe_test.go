package model

import (
	"slices"
	"strings"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// observe is a step of what watches the server; false if it cannot be taken now.
func (m *model) observe(a action) bool {
	s := m.server
	switch a.op {
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
	}
	return true
}

func (m *model) monitor(k *kind) *monitor {
	return m.monitors[slices.IndexFunc(m.monitors, func(mon *monitor) bool { return mon.kind == k })]
}

// synced is pkg/gc/observe's Settled: a monitor that cannot list does not count.
func (m *model) synced() bool {
	return !slices.ContainsFunc(m.monitors, func(mon *monitor) bool {
		return mon.running && !mon.draining && !mon.broken && mon.initial > 0
	})
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
