package graph

import (
	"slices"
	"strings"
	"time"

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
	// unsure holds objects that no monitor shows any more; they stay among the others.
	unsure map[Key]bool
	// since is when an object in foreground deletion was first asked about.
	since map[Key]time.Time
	facts map[place]Fact
}

type place struct {
	uid types.UID
	at  Coordinates
}

func newNaive() *naive {
	return &naive{
		announced: map[schema.GroupResource]schema.GroupKind{},
		objects:   map[Key]*Record{},
		unsure:    map[Key]bool{},
		since:     map[Key]time.Time{},
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
	var all, waiting []Key
	for k, rec := range m.objects {
		if len(rec.References) > 0 {
			all = append(all, k)
		}
		if waits(rec) {
			waiting = append(waiting, k)
		}
	}
	return append(m.unsettled(all), waiting...)
}

func waits(rec *Record) bool { return rec.Deleting && rec.Foreground }

// released returns the waiting owners that one of the references before named as
// blocking, unless it is among those after too.
func (m *naive) released(before, after []Reference) (look []Key) {
	for k, o := range m.objects {
		for _, r := range before {
			if r.UID == k.UID && r.BlockOwnerDeletion == True && waits(o) && !slices.Contains(after, r) {
				look = append(look, k)
			}
		}
	}
	return look
}

// drop takes an object out.
func (m *naive) drop(k Key) {
	delete(m.objects, k)
	delete(m.unsure, k)
	delete(m.since, k)
}

// blockers returns what an object in foreground deletion has to wait for.
func (m *naive) blockers(k Key) (all []Key) {
	o := m.objects[k]
	if o == nil || !waits(o) {
		return nil
	}
	for d, rec := range m.objects {
		for i, view := range m.ownerViews(rec) {
			if ref := rec.References[i]; ref.UID != k.UID || ref.BlockOwnerDeletion != True {
				continue
			}
			// Under each resource that shows the owner it may have another kind.
			named := false
			for twin := range m.objects {
				here := m.coordinates(twin)
				here.Namespace = view.At.Namespace
				named = named || twin.UID == k.UID && here == view.At
			}
			near := o.Namespace == rec.Namespace || o.Namespace == ""
			if view.Resource == nil || near && named {
				all = append(all, d)
				break
			}
		}
	}
	return all
}

func (m *naive) addResource(r *Resource) {
	gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
	if _, ok := m.announced[gr]; !ok {
		m.announced[gr] = schema.GroupKind{Group: r.Group, Kind: r.Kind}
	}
}

func (m *naive) removeResource(gr schema.GroupResource) (look []Key) {
	gone := map[types.UID]*Record{}
	for k, rec := range m.objects {
		if k.Resource == gr {
			gone[k.UID] = rec
			m.drop(k)
		}
	}
	delete(m.announced, gr)
	m.forget()
	for uid, rec := range gone {
		look = append(look, m.dependents(uid)...)
		look = append(look, m.released(rec.References, nil)...)
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
	delete(m.unsure, k)
	if !waits(rec) {
		delete(m.since, k)
	}
	delete(m.facts, place{rec.UID, m.coordinates(k)})
	m.forget()
	differs := old == nil || old.Deleting != rec.Deleting || old.Foreground != rec.Foreground || old.Orphan != rec.Orphan ||
		!slices.Equal(old.References, rec.References)
	if differs {
		look = append(look, m.unsettled([]Key{k})...)
	}
	if rec.Deleting && (rec.Foreground || rec.Orphan) && (differs || old.ResourceVersion != rec.ResourceVersion) {
		look = append(look, k)
	}
	if old != nil {
		look = append(look, m.released(old.References, rec.References)...)
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
	k := Key{Resource: gr, UID: rec.UID}
	old := m.objects[k]
	m.drop(k)
	at := Coordinates{Group: gk.Group, Kind: gk.Kind, Namespace: rec.Namespace, Name: rec.Name}
	if !m.shown(rec.UID, at) {
		m.facts[place{rec.UID, at}] = Fact{State: Gone}
	}
	m.forget()
	look := m.dependents(rec.UID)
	if old != nil {
		look = append(look, m.released(old.References, nil)...)
	}
	return look
}

func (m *naive) vanished(gr schema.GroupResource, uid types.UID) []Key {
	k := Key{Resource: gr, UID: uid}
	if m.objects[k] == nil {
		return nil
	}
	if o := m.objects[k]; len(o.References) == 0 && len(m.dependents(uid)) == 0 && !(o.Deleting && (o.Foreground || o.Orphan)) {
		m.drop(k)
		return nil
	}
	m.unsure[k] = true
	return []Key{k}
}

func (m *naive) vanishedExcept(gr schema.GroupResource, shown []types.UID) (look []Key) {
	var gone []types.UID
	for k := range m.objects {
		if k.Resource == gr && !m.unsure[k] && !slices.Contains(shown, k.UID) {
			gone = append(gone, k.UID)
		}
	}
	for _, uid := range gone {
		look = append(look, m.vanished(gr, uid)...)
	}
	return look
}

func (m *naive) confirm(k Key, rec *Record) []Key {
	if !m.unsure[k] {
		return nil
	}
	return m.upsert(k.Resource, rec)
}

func (m *naive) waitingSince(k Key, now time.Time) time.Time {
	if rec := m.objects[k]; rec == nil || !waits(rec) {
		return time.Time{}
	}
	if _, asked := m.since[k]; !asked {
		m.since[k] = now
	}
	return m.since[k]
}

func (m *naive) learn(uid types.UID, at Coordinates, f Fact) {
	if f.State != Present && m.shown(uid, at) {
		return
	}
	old := m.facts[place{uid, at}]
	final := old.State == Gone || old.State == Absent
	if old.State == Gone || f.State == Present && (final || old.Seen.After(f.Seen)) {
		return
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
	v := m.viewOf(k.Resource, rec)
	v.Unsure = m.unsure[k]
	return v, true
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
			for k := range m.objects {
				there := m.coordinates(k)
				there.Namespace = o.At.Namespace
				o.Elsewhere = o.Elsewhere || o.Observed == nil && o.Resource.Namespaced && k.UID == ref.UID && there == o.At
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
