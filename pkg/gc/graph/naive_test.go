package graph

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// naive is the graph as one would write it first: objects and facts in flat lists,
// everything searched for when it is asked. It shares no code with the graph,
// only the types that go in and come out.
type naive struct {
	resources []*Resource
	announced map[schema.GroupResource]schema.GroupKind
	objects   map[Key]*Record
	facts     map[place]Fact
}

type place struct {
	uid types.UID
	at  Coordinates
}

func newNaive() *naive {
	return &naive{
		announced: map[schema.GroupResource]schema.GroupKind{},
		objects:   map[Key]*Record{},
		facts:     map[place]Fact{},
	}
}

func (m *naive) coordinates(k Key) Coordinates {
	gk, rec := m.announced[k.Resource], m.objects[k]
	return Coordinates{Group: gk.Group, Kind: gk.Kind, Namespace: rec.Namespace, Name: rec.Name}
}

// dependents returns the objects with a reference to the UID.
func (m *naive) dependents(uid types.UID) (keys []Key) {
	for k, rec := range m.objects {
		for _, r := range rec.References {
			if r.UID == uid {
				keys = append(keys, k)
				break
			}
		}
	}
	return keys
}

// forget drops the facts of UIDs that nothing names.
func (m *naive) forget() {
	for p := range m.facts {
		if len(m.dependents(p.uid)) == 0 {
			delete(m.facts, p)
		}
	}
}

func (m *naive) unsettled(keys []Key) (look []Key) {
	for _, k := range keys {
		settled := true
		for _, o := range m.ownerViews(m.objects[k]) {
			settled = settled && o.Observed != nil && !(o.Observed.Deleting && o.Observed.Foreground)
		}
		if !settled {
			look = append(look, k)
		}
	}
	return look
}

func (m *naive) setCatalog(resources []*Resource) []Key {
	m.resources = resources
	var all []Key
	for k, rec := range m.objects {
		if len(rec.References) > 0 {
			all = append(all, k)
		}
	}
	return m.unsettled(all)
}

func (m *naive) addResource(r *Resource) {
	gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
	if _, ok := m.announced[gr]; !ok {
		m.announced[gr] = schema.GroupKind{Group: r.Group, Kind: r.Kind}
	}
}

func (m *naive) removeResource(gr schema.GroupResource) (look []Key) {
	var gone []types.UID
	for k := range m.objects {
		if k.Resource == gr {
			gone = append(gone, k.UID)
			delete(m.objects, k)
		}
	}
	delete(m.announced, gr)
	m.forget()
	for _, uid := range gone {
		look = append(look, m.dependents(uid)...)
	}
	return look
}

func (m *naive) upsert(gr schema.GroupResource, rec *Record) (look []Key) {
	if _, ok := m.announced[gr]; !ok {
		return nil
	}
	k := Key{Resource: gr, UID: rec.UID}
	old := m.objects[k]
	m.objects[k] = rec
	delete(m.facts, place{rec.UID, m.coordinates(k)})
	m.forget()
	if old == nil || old.Deleting != rec.Deleting || old.Foreground != rec.Foreground || old.Orphan != rec.Orphan ||
		!slices.Equal(old.References, rec.References) {
		look = append(look, m.unsettled([]Key{k})...)
	}
	if old == nil || (old.Deleting && old.Foreground) != (rec.Deleting && rec.Foreground) {
		for _, d := range m.unsettled(m.dependents(rec.UID)) {
			if d != k {
				look = append(look, d)
			}
		}
	}
	return look
}

func (m *naive) deleted(gr schema.GroupResource, rec *Record) []Key {
	gk, ok := m.announced[gr]
	if !ok {
		return nil
	}
	delete(m.objects, Key{Resource: gr, UID: rec.UID})
	at := Coordinates{Group: gk.Group, Kind: gk.Kind, Namespace: rec.Namespace, Name: rec.Name}
	if sharedKindProvesGone || !m.shown(rec.UID, at) {
		m.facts[place{rec.UID, at}] = Fact{State: Gone}
	}
	m.forget()
	return m.dependents(rec.UID)
}

func (m *naive) vanished(gr schema.GroupResource, uid types.UID) []Key {
	k := Key{Resource: gr, UID: uid}
	if m.objects[k] == nil {
		return nil
	}
	delete(m.objects, k)
	m.forget()
	return m.dependents(uid)
}

func (m *naive) learn(uid types.UID, at Coordinates, f Fact) {
	if m.shown(uid, at) {
		return
	}
	old := m.facts[place{uid, at}]
	if !lateReadOverwritesProof {
		final := old.State == Gone || old.State == Absent
		if old.State == Gone || f.State == Present && (final || old.Seen.After(f.Seen)) {
			return
		}
	}
	m.facts[place{uid, at}] = f
	m.forget()
}

// shown is true if any monitor shows the UID at the place.
func (m *naive) shown(uid types.UID, at Coordinates) bool {
	for k := range m.objects {
		if k.UID == uid && m.coordinates(k) == at {
			return true
		}
	}
	return false
}

func (m *naive) view(k Key) (View, bool) {
	rec := m.objects[k]
	if rec == nil {
		return View{}, false
	}
	return m.viewOf(k.Resource, rec), true
}

func (m *naive) viewOf(gr schema.GroupResource, rec *Record) View {
	v := View{Key: Key{Resource: gr, UID: rec.UID}, Record: rec, Owners: m.ownerViews(rec), HasDependents: len(m.dependents(rec.UID)) > 0}
	for _, r := range m.resources {
		if r.Group == gr.Group && r.Name == gr.Resource {
			v.Resource = r // the last of the name, should a catalog have two
		}
	}
	return v
}

func (m *naive) ownerViews(rec *Record) (views []OwnerView) {
	for _, ref := range rec.References {
		o := OwnerView{Reference: ref}
		group, version, readable := split(ref.APIVersion)
		for _, r := range m.resources {
			if readable && r.Group == group && r.Kind == ref.Kind {
				o.KindServed = true
				if slices.Contains(r.Versions, version) {
					o.Resource = r
				}
				break
			}
		}
		o.At = Coordinates{Group: group, Kind: ref.Kind, Namespace: rec.Namespace, Name: ref.Name}
		if o.Resource != nil && !o.Resource.Namespaced {
			o.At.Namespace = ""
		}
		if o.Resource != nil {
			for k, owner := range m.objects {
				if k.UID == ref.UID && m.coordinates(k) == o.At {
					o.Observed = owner
				}
			}
		}
		o.Fact = m.facts[place{ref.UID, o.At}]
		if !o.KindServed && o.Fact.State == Unproved {
			// Nobody knows any more whether the kind had namespaces.
			at := o.At
			at.Namespace = ""
			o.Fact = m.facts[place{ref.UID, at}]
		}
		views = append(views, o)
	}
	return views
}

// split reads an apiVersion. What cannot be read stands for a group of its own.
func split(apiVersion string) (group, version string, readable bool) {
	switch parts := strings.Split(apiVersion, "/"); {
	case apiVersion == "" || apiVersion == "/":
		return "", "", true
	case len(parts) == 1:
		return "", parts[0], true
	case len(parts) == 2:
		return parts[0], parts[1], true
	}
	return apiVersion, "", false
}

func (m *naive) stats() Stats {
	s := Stats{Nodes: len(m.objects)}
	named, observed := map[types.UID]bool{}, map[types.UID]bool{}
	for k, rec := range m.objects {
		observed[k.UID] = true
		s.Edges += len(rec.References)
		for _, r := range rec.References {
			named[r.UID] = true
		}
	}
	for uid := range named {
		if !observed[uid] {
			s.Virtual++
		}
	}
	return s
}
