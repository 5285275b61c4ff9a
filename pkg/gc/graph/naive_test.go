package graph

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// naive is the obvious implementation of the graph: objects and facts in flat
// lists, everything searched for on each query. It shares no code with the graph,
// only the types that go in and come out.
type naive struct {
	resources []*Resource
	announced map[schema.GroupResource]schema.GroupKind
	objects   map[Key]*Record
	// missing holds objects that no monitor shows any more; they stay among the others.
	missing map[Key]bool
	// since is when an object was first shown in foreground deletion.
	since map[Key]time.Time
	facts map[place]Fact
	// These say which resources have been listed, cannot be read, or are suspended.
	listed, unreadable, suspended map[schema.GroupResource]bool
	synced                        time.Time
}

type place struct {
	uid types.UID
	at  Coordinates
}

func newNaive() *naive {
	return &naive{
		announced: map[schema.GroupResource]schema.GroupKind{},
		objects:   map[Key]*Record{},
		missing:   map[Key]bool{},
		since:     map[Key]time.Time{},
		facts:     map[place]Fact{},
		listed:    map[schema.GroupResource]bool{}, unreadable: map[schema.GroupResource]bool{}, suspended: map[schema.GroupResource]bool{},
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

func (m *naive) setCatalog(resources []*Resource, now time.Time) []Key {
	m.resources = resources
	m.sync(now)
	var all, unfinished []Key
	for k, rec := range m.objects {
		if len(rec.References) > 0 {
			all = append(all, k)
		}
		if waits(rec) || rec.Deleting && rec.Orphan || m.missing[k] {
			unfinished = append(unfinished, k)
		}
	}
	return append(m.unsettled(all), unfinished...)
}

// sync notes since when all that can be read has been listed.
func (m *naive) sync(now time.Time) {
	synced := true
	for gr := range m.announced {
		synced = synced && (m.listed[gr] || m.unreadable[gr] || m.suspended[gr])
	}
	for _, r := range m.resources {
		_, known := m.announced[r.GroupResource()]
		synced = synced && known
	}
	if !synced {
		m.synced = time.Time{}
	} else if m.synced.IsZero() {
		m.synced = now
	}
}

func waits(rec *Record) bool { return rec.Deleting && rec.Foreground }

// blocked returns the objects in foreground deletion that something blocks.
func (m *naive) blocked() map[Key]bool {
	all := map[Key]bool{}
	for k := range m.objects {
		if len(m.blockers(k)) > 0 {
			all[k] = true
		}
	}
	return all
}

// released returns those of the blocked objects that still wait and that nothing
// blocks now.
func (m *naive) released(blocked map[Key]bool) (look []Key) {
	for k := range blocked {
		if o := m.objects[k]; o != nil && waits(o) && len(m.blockers(k)) == 0 {
			look = append(look, k)
		}
	}
	return look
}

// drop takes an object out.
func (m *naive) drop(k Key) {
	delete(m.objects, k)
	delete(m.missing, k)
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
			// The owner may have another kind under each resource that shows it.
			named := false
			for twin := range m.objects {
				here := m.coordinates(twin)
				here.Namespace = view.At.Namespace
				named = named || twin.UID == k.UID && here == view.At
			}
			near := o.Namespace == rec.Namespace || o.Namespace == ""
			if near && (view.Resource == nil || named) {
				all = append(all, d)
				break
			}
		}
	}
	return all
}

func (m *naive) addResource(r *Resource, now time.Time) {
	gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
	if _, ok := m.announced[gr]; !ok {
		m.announced[gr] = schema.GroupKind{Group: r.Group, Kind: r.Kind}
	} else if m.suspended[gr] {
		m.suspended[gr], m.listed[gr], m.unreadable[gr] = false, false, false
	}
	m.sync(now)
}

// note sets one property of an announced resource.
func (m *naive) note(what map[schema.GroupResource]bool, gr schema.GroupResource, is bool, now time.Time) {
	if _, ok := m.announced[gr]; ok {
		what[gr] = is
		m.sync(now)
	}
}

func (m *naive) removeResource(gr schema.GroupResource, now time.Time) (look []Key) {
	blocked := m.blocked()
	gone := map[types.UID]bool{}
	for k := range m.objects {
		if k.Resource == gr {
			gone[k.UID] = true
			m.drop(k)
		}
	}
	if gk, ok := m.announced[gr]; ok {
		for p, f := range m.facts {
			if f.State == Present && p.at.Group == gk.Group && p.at.Kind == gk.Kind {
				gone[p.uid] = true
				delete(m.facts, p)
			}
		}
	}
	delete(m.announced, gr)
	delete(m.listed, gr)
	delete(m.unreadable, gr)
	delete(m.suspended, gr)
	m.sync(now)
	m.forget()
	for uid := range gone {
		look = append(look, m.dependents(uid)...)
	}
	return append(look, m.released(blocked)...)
}

func (m *naive) upsert(gr schema.GroupResource, rec *Record, now time.Time) (look []Key) {
	if _, ok := m.announced[gr]; !ok {
		return nil
	}
	blocked := m.blocked()
	k := Key{Resource: gr, UID: rec.UID}
	old := m.objects[k]
	m.objects[k] = rec
	delete(m.missing, k)
	switch {
	case !waits(rec):
		delete(m.since, k)
	case old == nil || !waits(old):
		m.since[k] = now
	}
	if f := m.facts[place{rec.UID, m.coordinates(k)}]; !f.Waiting || !waits(rec) {
		delete(m.facts, place{rec.UID, m.coordinates(k)})
	}
	m.forget()
	differs := old == nil || old.Deleting != rec.Deleting || old.Foreground != rec.Foreground || old.Orphan != rec.Orphan ||
		!slices.Equal(old.References, rec.References)
	if differs {
		look = append(look, m.unsettled([]Key{k})...)
	}
	if rec.Deleting && (rec.Foreground || rec.Orphan) && (differs || old.ResourceVersion != rec.ResourceVersion) {
		look = append(look, k)
	}
	if old == nil || (old.Deleting && old.Foreground) != (rec.Deleting && rec.Foreground) {
		for _, d := range m.unsettled(m.dependents(rec.UID)) {
			if d != k {
				look = append(look, d)
			}
		}
	}
	return append(look, m.released(blocked)...)
}

func (m *naive) deleted(gr schema.GroupResource, rec *Record) []Key {
	gk, ok := m.announced[gr]
	if !ok {
		return nil
	}
	k := Key{Resource: gr, UID: rec.UID}
	blocked := m.blocked()
	m.drop(k)
	at := Coordinates{Group: gk.Group, Kind: gk.Kind, Namespace: rec.Namespace, Name: rec.Name}
	if !m.shown(rec.UID, at) {
		m.facts[place{rec.UID, at}] = Fact{State: Gone}
	}
	m.forget()
	return append(m.dependents(rec.UID), m.released(blocked)...)
}

// descendants returns how many objects are below the given one.
func (m *naive) descendants(k Key) int {
	seen := map[Key]bool{k: true}
	for next := []Key{k}; len(next) > 0; next = next[1:] {
		for _, d := range m.dependents(next[0].UID) {
			if !seen[d] {
				seen[d] = true
				next = append(next, d)
			}
		}
	}
	return len(seen) - 1
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
	m.missing[k] = true
	return []Key{k}
}

func (m *naive) vanishedExcept(gr schema.GroupResource, shown []types.UID) (look []Key) {
	var gone []types.UID
	for k := range m.objects {
		if k.Resource == gr && !m.missing[k] && !slices.Contains(shown, k.UID) {
			gone = append(gone, k.UID)
		}
	}
	for _, uid := range gone {
		look = append(look, m.vanished(gr, uid)...)
	}
	return look
}

func (m *naive) confirm(k Key, rec *Record, now time.Time) []Key {
	if !m.missing[k] {
		return nil
	}
	return m.upsert(k.Resource, rec, now)
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
	v.Missing = m.missing[k]
	if waits(rec) {
		v.SyncedSince = m.synced
	}
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
			// It is no longer known whether the kind was namespaced.
			at := o.At
			at.Namespace = ""
			o.Fact = m.facts[place{ref.UID, at}]
		}
		views = append(views, o)
	}
	return views
}

// split reads an apiVersion. One that cannot be read counts as a group of its own.
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
