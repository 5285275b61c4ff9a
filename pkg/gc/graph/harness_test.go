package graph

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The small universe of these tests. Widgets and mirrors may show one UID, as
// extensions and apps once did for Deployments.
var (
	things   = &Resource{Name: "things", Kind: "Thing", Versions: []string{"v1"}, Namespaced: true, Monitored: true}
	widgets  = &Resource{Group: "ex.io", Name: "widgets", Kind: "Widget", Versions: []string{"v2", "v1"}, Namespaced: true, Monitored: true}
	clusters = &Resource{Group: "ex.io", Name: "clusters", Kind: "Cluster", Versions: []string{"v1"}, Monitored: true}
	mirrors  = &Resource{Group: "old.io", Name: "mirrors", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true, Monitored: true}

	universe = []*Resource{things, widgets, clusters, mirrors}
)

// epoch stands for the time: the graph reads no clock.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// checked is a graph whose invariants are verified after every step.
type checked struct {
	*Graph
	t   testing.TB
	now time.Time // of the next event
}

// newGraph returns a graph in which the whole universe is served and announced.
func newGraph(t testing.TB) *checked {
	t.Helper()
	g := &checked{New(), t, epoch}
	g.SetCatalog(NewCatalog(universe), epoch)
	for _, r := range universe {
		g.AddResource(r.GroupResource(), r.GroupKind(), epoch)
	}
	g.check()
	return g
}

func (g *checked) check() {
	g.t.Helper()
	if err := g.Check(); err != nil {
		g.t.Fatalf("the graph's invariants are broken:\n%v", err)
	}
}

func (g *checked) show(r *Resource, rec *Record) []Key {
	g.t.Helper()
	keys := g.Upsert(r.GroupResource(), rec, g.now)
	g.check()
	return keys
}

func (g *checked) end(r *Resource, rec *Record) []Key {
	g.t.Helper()
	keys := g.Deleted(r.GroupResource(), rec, g.now)
	g.check()
	return keys
}

func (g *checked) vanish(r *Resource, uid types.UID) []Key {
	g.t.Helper()
	keys := g.Vanished(r.GroupResource(), uid)
	g.check()
	return keys
}

func (g *checked) drop(r *Resource) []Key {
	g.t.Helper()
	keys := g.RemoveResource(r.GroupResource(), g.now)
	g.check()
	return keys
}

func (g *checked) serve(resources ...*Resource) []Key {
	g.t.Helper()
	keys := g.SetCatalog(NewCatalog(resources), g.now)
	g.check()
	return keys
}

func (g *checked) learn(uid types.UID, at Coordinates, f Fact) {
	g.t.Helper()
	g.Learn(uid, at, f)
	g.check()
}

// owners returns what the graph knows of an observed object's owners.
func (g *checked) owners(r *Resource, uid types.UID) []OwnerView {
	g.t.Helper()
	v, ok := g.View(key(r, uid))
	if !ok {
		g.t.Fatalf("%s %s is not observed", r.Name, uid)
	}
	return v.Owners
}

// probe returns what the graph would show an object in a namespace about one
// reference, whether or not any object declares it.
func (g *checked) probe(namespace string, ref Reference) OwnerView {
	return g.ViewOf(things.GroupResource(), &Record{Namespace: namespace, UID: "probe", References: []Reference{ref}}).Owners[0]
}

func (g *checked) wantStats(nodes, virtual, edges int) {
	g.t.Helper()
	if got, want := g.Stats(), (Stats{Nodes: nodes, Virtual: virtual, Edges: edges}); got != want {
		g.t.Errorf("stats: got %+v, want %+v", got, want)
	}
}

func key(r *Resource, uid types.UID) Key { return Key{Resource: r.GroupResource(), UID: uid} }

// object returns a record whose name is its UID.
func object(namespace string, uid types.UID, refs ...Reference) *Record {
	return &Record{Namespace: namespace, Name: string(uid), UID: uid, ResourceVersion: "1", References: refs}
}

// waiting returns the record in foreground deletion since the epoch.
func waiting(r *Record) *Record {
	w := *r
	w.Deleting, w.Foreground, w.DeletedAt = true, true, epoch.Unix()
	return &w
}

// to returns a right reference to an object made by object, at the preferred version.
func to(r *Resource, uid types.UID) Reference {
	return Reference{APIVersion: apiVersion(r, r.Versions[0]), Kind: r.Kind, Name: string(uid), UID: uid}
}

func apiVersion(r *Resource, version string) string {
	return schema.GroupVersion{Group: r.Group, Version: version}.String()
}

func at(r *Resource, namespace, name string) Coordinates {
	return Coordinates{Group: r.Group, Kind: r.Kind, Namespace: namespace, Name: name}
}

// wantKeys compares sets: the order of the keys means nothing, and looking at an
// object twice does no harm.
func wantKeys(t testing.TB, what string, got []Key, want ...Key) {
	t.Helper()
	if g, w := keySet(got), keySet(want); !slices.Equal(g, w) {
		t.Errorf("%s: to reconsider: got %v, want %v", what, g, w)
	}
}

func keySet(keys []Key) []Key {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Resource.String(), b.Resource.String()), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(keys)
}
