package relink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

var (
	maps  = &graph.Resource{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true}
	roles = &graph.Resource{Group: "rbac", Name: "roles", Kind: "Role", Versions: []string{"v1"}, Monitored: true}
	now   = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
)

// world is a graph and what live reads would find.
type world struct {
	g         *graph.Graph
	occupants map[graph.Coordinates]Occupant
}

func newWorld() *world {
	w := &world{graph.New(), map[graph.Coordinates]Occupant{}}
	w.g.SetCatalog(graph.NewCatalog([]*graph.Resource{maps, roles}), now)
	for _, r := range []*graph.Resource{maps, roles} {
		w.g.AddResource(r.GroupResource(), r.GroupKind(), now)
		w.g.Listed(r.GroupResource(), now)
	}
	return w
}

// add puts an object at namespace/name; its UID is new-NAME.
func (w *world) add(r *graph.Resource, namespace, name string, refs ...graph.Reference) *graph.Record {
	rec := &graph.Record{Namespace: namespace, Name: name, UID: types.UID("new-" + name), ResourceVersion: "1", References: refs}
	w.put(r, rec)
	return rec
}

func (w *world) put(r *graph.Resource, rec *graph.Record) {
	w.g.Upsert(r.GroupResource(), rec, now)
	w.occupants[graph.Coordinates{Group: r.Group, Kind: r.Kind, Namespace: rec.Namespace, Name: rec.Name}] = Occupant{Record: rec}
}

// plan verifies the doubtful owners, as a listing does, and makes the plan.
func (w *world) plan(only func(*graph.Record) bool) Plan {
	for _, n := range w.g.Objects() {
		v, _ := w.g.View(n.Key)
		for i := range v.Owners {
			if o := &v.Owners[i]; o.Observed == nil && o.Resource != nil && !strings.HasPrefix(string(o.Reference.UID), "unread") {
				w.g.Learn(o.Reference.UID, o.At, graph.Fact{State: graph.Absent})
			}
		}
	}
	return Resolve(w.g, Find(Input{Graph: w.g, Now: now, Only: only}), w.occupants)
}

func to(r *graph.Resource, name string, uid types.UID) graph.Reference {
	version := r.Versions[0]
	if r.Group != "" {
		version = r.Group + "/" + version
	}
	return graph.Reference{APIVersion: version, Kind: r.Kind, Name: name, UID: uid}
}

// TestOwnersComeFirst: owners come before their dependents, whatever their names, also if objects
// that need no change lie between. Rings do not prevent that.
func TestOwnersComeFirst(t *testing.T) {
	w := newWorld()
	w.add(roles, "", "z")
	w.add(maps, "n", "y", to(roles, "z", "old"))
	w.add(maps, "n", "between", to(maps, "y", "new-y")) // needs no change
	w.add(maps, "n", "x", to(maps, "between", "old"), to(roles, "z", "old"))
	w.add(maps, "n", "a", to(maps, "x", "old"))
	w.add(maps, "n", "r1", to(maps, "r2", "old"), to(maps, "a", "old"))
	w.add(maps, "n", "r2", to(maps, "r1", "old"))
	w.add(maps, "n", "self", to(maps, "self", "old"))
	p := w.plan(nil)
	if len(p.Left) > 0 {
		t.Errorf("left: %+v", p.Left)
	}
	at := map[string]int{}
	for i, level := range p.Levels {
		for _, c := range level {
			at[c.Object.Record.Name] = i + 1
			for _, l := range c.Links {
				if want := types.UID("new-" + l.Reference.Name); l.Owner.Key.UID != want {
					t.Errorf("%s is to be owned by %s, not %s", c.Object.Record.Name, l.Owner.Key.UID, want)
				}
			}
		}
	}
	if len(at) != 6 || at["y"] != 1 || at["x"] <= at["y"] || at["a"] <= at["x"] || max(at["r1"], at["r2"]) <= at["a"] || at["self"] != 1 {
		t.Errorf("the objects are in the levels %v", at)
	}
}

// TestAmbiguousReferencesAreLeft: references without a certain new owner are left, with the reason.
func TestAmbiguousReferencesAreLeft(t *testing.T) {
	w := newWorld()
	w.add(maps, "n", "taken")
	other := w.add(maps, "n", "other")
	w.put(maps, &graph.Record{Namespace: "n", Name: "going", UID: "new-going", Deleting: true, Foreground: true})
	w.put(maps, &graph.Record{Namespace: "elsewhere", Name: "copied", UID: "original"})
	w.add(maps, "n", "copied")
	w.g.Upsert(maps.GroupResource(), &graph.Record{Namespace: "n", Name: "later", UID: lint.NewUID + "7"}, now)
	w.put(roles, &graph.Record{Name: "taken", UID: "role"})
	w.occupants[graph.Coordinates{Kind: "ConfigMap", Namespace: "n", Name: "dark"}] = Occupant{Err: errors.New("forbidden")}
	w.occupants[graph.Coordinates{Kind: "ConfigMap", Namespace: "n", Name: "returned"}] = Occupant{Record: &graph.Record{Name: "returned", UID: "same"}}
	for name, ref := range map[string]graph.Reference{
		"missing":       to(maps, "nobody", "old"),
		"being-deleted": to(maps, "going", "old"),
		"elsewhere":     to(maps, "taken", other.UID),
		"not-created":   to(maps, "later", "old"),
		"unread":        to(maps, "dark", "old"),
		"unread-itself": to(maps, "nobody", "unread"),
		"linked":        to(maps, "copied", "original"),
		"back":          to(maps, "returned", "same"), // created just now
		"solid":         to(maps, "taken", "new-taken"),
		"elsewhere-too": to(maps, "nobody", other.UID),
		"waiting":       to(maps, "going", "new-going"), // its owner is there, and waits for its dependents
		"kind":          to(maps, "taken", "role"),      // another kind's UID, though the name is the same
	} {
		w.add(maps, "n", name, ref)
	}
	w.put(maps, &graph.Record{Namespace: "n", Name: "deleted", UID: "new-deleted", Deleting: true, References: []graph.Reference{to(maps, "taken", "old")}})
	p := w.plan(nil)
	got, others := map[string]Reason{}, map[string]string{}
	for _, l := range p.Left {
		got[l.Object.Record.Name] = l.Reason
		if l.Reason == Elsewhere {
			var names []string
			for _, o := range l.Others {
				names = append(names, o.Record.Name)
			}
			others[l.Object.Record.Name] = strings.Join(names, " ")
		}
	}
	want := map[string]Reason{
		"missing": Missing, "being-deleted": BeingDeleted, "elsewhere": Elsewhere, "elsewhere-too": Elsewhere, "kind": Elsewhere, "not-created": NotCreated,
		"unread": Unread, "unread-itself": Unread,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("left: %v, not %v", got, want)
	}
	if want := map[string]string{"elsewhere": "other taken", "elsewhere-too": "other", "kind": "taken taken"}; fmt.Sprint(others) != fmt.Sprint(want) {
		t.Errorf("the possible owners are %v, not %v", others, want)
	}
	if len(p.Levels) != 1 || len(p.Levels[0]) != 1 || p.Levels[0][0].Object.Record.Name != "linked" || p.Levels[0][0].Links[0].Owner.Key.UID != "new-copied" {
		t.Errorf("the links are %+v", p.Levels)
	}
	if p := w.plan(func(r *graph.Record) bool { return r.Namespace == "elsewhere" }); len(p.Left)+len(p.Levels) > 0 {
		t.Errorf("of another namespace: %+v", p)
	}
}

// TestOrderOfObjects: by namespace and name, whatever the UIDs.
func TestOrderOfObjects(t *testing.T) {
	w := newWorld()
	for i, at := range []string{"n/b", "m/c", "n/a", "m/d"} {
		namespace, name, _ := strings.Cut(at, "/")
		w.put(maps, &graph.Record{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(i)), References: []graph.Reference{to(maps, "nobody", "old")}})
	}
	var got []string
	for _, l := range w.plan(nil).Left {
		got = append(got, l.Object.Record.Namespace+"/"+l.Object.Record.Name)
	}
	if want := []string{"m/c", "m/d", "n/a", "n/b"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestRewriteChangesUIDsAlone: only UIDs change, and only in references that are still there.
func TestRewriteChangesUIDsAlone(t *testing.T) {
	owner := graph.Node{Key: graph.Key{Resource: schema.GroupResource{Resource: "configmaps"}, UID: "new"}}
	a, b, c := to(maps, "o", "old"), to(maps, "o", "older"), to(roles, "o", "old")
	a.Controller, a.BlockOwnerDeletion = graph.True, graph.False
	links := []Link{{a, owner}, {b, owner}}
	linked := a
	linked.UID = "new"
	linkedB := b
	linkedB.UID = "new"
	for _, tc := range []struct {
		refs, want []graph.Reference
		applied    int
	}{
		{[]graph.Reference{c, a}, []graph.Reference{c, linked}, 1},
		{[]graph.Reference{a, b, c}, []graph.Reference{linked, linkedB, c}, 2},
		{[]graph.Reference{linkedB, b}, []graph.Reference{linkedB}, 1},
		{[]graph.Reference{c}, []graph.Reference{c}, 0},
		{nil, nil, 0},
	} {
		got, applied := Rewrite(tc.refs, links)
		if !slices.Equal(got, tc.want) || applied != tc.applied {
			t.Errorf("%v became %v (%d)", tc.refs, got, applied)
		}
	}
}
