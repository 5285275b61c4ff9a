package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// beginOrphaning starts an attempt as in pkg/gc/orphaner.go.
func beginOrphaning(m *model, k graph.Key) *attempt {
	a := &attempt{key: k, orphaning: true}
	v, found := m.graph.View(k)
	if !found || v.Resource == nil || !v.Record.Deleting || !v.Record.Orphan {
		delete(m.freed, k)
		return a
	}
	a.view, a.next = v, callOwner
	return a
}

// ownerRead continues after the owner has been read.
func (a *attempt) ownerRead(m *model) {
	switch {
	case !a.answer.deleting || !a.answer.orphan:
		delete(m.freed, a.key)
		a.finish()
	case a.letting:
		a.let(m)
	default:
		a.free = m.graph.Dependents(a.key.UID)
		if own := a.view.Record.Namespace; own != "" {
			a.free = slices.DeleteFunc(a.free, func(d graph.Node) bool { return d.Record.Namespace != "" && d.Record.Namespace != own })
		}
		a.free = slices.DeleteFunc(a.free, func(d graph.Node) bool { return m.freed[a.key][d.Key] == d.Record.ResourceVersion })
		known := len(a.free)
		a.free = slices.DeleteFunc(a.free, func(d graph.Node) bool { return m.graph.Catalog().Resource(d.Key.Resource) == nil })
		a.unserved = len(a.free) < known
		sortNodes(a.free)
		if a.over = len(a.free) > freedPerTurn; a.over {
			a.free = a.free[:freedPerTurn]
		}
		a.freeAll(m)
	}
}

// sortNodes sorts objects by their paths, which are all that the calls show.
func sortNodes(nodes []graph.Node) {
	slices.SortFunc(nodes, func(x, y graph.Node) int { return comparePaths(x.Key, x.Record, y.Key, y.Record) })
}

func comparePaths(x graph.Key, xr *graph.Record, y graph.Key, yr *graph.Record) int {
	return cmp.Or(cmp.Compare(x.Resource.String(), y.Resource.String()), cmp.Compare(xr.Namespace, yr.Namespace), cmp.Compare(xr.Name, yr.Name), cmp.Compare(x.UID, y.UID))
}

// freeAll begins to free dependents. pkg/gc frees them concurrently: if one cannot be
// reached any more, none of them is freed.
func (a *attempt) freeAll(m *model) {
	if slices.ContainsFunc(a.free, func(d graph.Node) bool { return m.graph.Catalog().Resource(d.Key.Resource) == nil }) {
		a.fail()
		return
	}
	a.freeNext(m)
}

// freeNext continues with the next dependent, and after the last one with a search.
func (a *attempt) freeNext(m *model) {
	if len(a.free) > 0 {
		a.freeing, a.tries = a.free[0].Record, 0
		a.freeOne(m)
		return
	}
	if a.over {
		a.endTurn()
		return
	}
	a.search(m)
}

// freeOne makes the call that drops the references of a dependent, if it has any.
func (a *attempt) freeOne(m *model) {
	a.tries++
	switch {
	case a.tries > maxRounds:
		a.fail()
	case len(a.toDrop()) == 0:
		a.freed(m)
	default:
		a.next = callFree
	}
}

// toDrop returns the references to drop from the first dependent.
func (a *attempt) toDrop() (drop []graph.Reference) {
	for _, r := range a.freeing.References {
		if r.UID == a.key.UID {
			drop = append(drop, r)
		}
	}
	return drop
}

// freed records that the first dependent is free, with the version at which it was
// found.
func (a *attempt) freed(m *model) {
	d := a.free[0]
	if m.freed[a.key] == nil {
		m.freed[a.key] = map[graph.Key]string{}
	}
	m.freed[a.key][d.Key] = d.Record.ResourceVersion
	a.free = a.free[1:]
	a.freeNext(m)
}

// search begins a pass, as in pkg/gc/search.go, over every resource that may hold
// dependents. It begins with the resource that could not be listed the last time.
// After the last pass the owner is released.
func (a *attempt) search(m *model) {
	if a.searches++; a.searches > passes {
		a.letting = true
		a.let(m)
		return
	}
	a.next, a.toList, a.pass = callList, nil, &pass{writes: m.server.writes}
	resources := slices.Clone(m.graph.Catalog().Resources())
	namespace := a.view.Record.Namespace
	if failed, has := m.unlisted[namespace]; has {
		if i := slices.IndexFunc(resources, func(r *graph.Resource) bool { return r.GroupResource() == failed }); i > 0 {
			resources[0], resources[i] = resources[i], resources[0]
		}
		delete(m.unlisted, namespace)
	}
	if m.holds() {
		a.fail()
		return
	}
	for _, r := range resources {
		if r.Monitored && (r.Namespaced || namespace == "") {
			a.toList = append(a.toList, r)
		}
	}
	if a.pass.searched = a.toList; len(a.toList) == 0 {
		a.listed(m)
	}
}

// holds reports whether there may be dependents that nobody can list.
func (m *model) holds() bool { return len(m.graph.Suspended()) > 0 }

// list reads one resource for dependents.
func (a *attempt) list(m *model) {
	k := kindOf(a.toList[0].GroupResource())
	m.called("list %s %s", k.Versions[0], place(k, a.view.Record.Namespace, ""))
	if !m.server.served[k] {
		a.cannotList(m)
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(m.server.objects)) {
		o, ns := m.server.objects[uid], a.view.Record.Namespace
		if o.storage == k.storage && (ns == "" || o.namespace == ns) && refersTo(o.record(), a.key.UID) {
			a.free = append(a.free, graph.Node{Key: graph.Key{Resource: k.GroupResource(), UID: uid}, Record: o.record()})
		}
	}
	if a.toList = a.toList[1:]; len(a.toList) == 0 {
		a.listed(m)
	}
}

func (a *attempt) cannotList(m *model) {
	m.unlisted[a.view.Record.Namespace] = a.toList[0].GroupResource()
	a.fail()
}

func (a *attempt) listed(m *model) {
	if a.unserved {
		a.fail()
		return
	}
	if len(a.free) > 0 {
		sortNodes(a.free)
		a.freeAll(m)
		return
	}
	a.letting = true
	a.let(m)
}

// let makes the call that removes the owner's finalizer, now that its dependents are
// free.
func (a *attempt) let(m *model) {
	if a.rounds++; a.rounds > maxRounds {
		a.fail()
		return
	}
	a.next = callRelease
	m.orphaned[a.key.UID] = true
}
