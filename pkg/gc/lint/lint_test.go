package lint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// resources are the kinds of all tests. Bindings cannot be deleted, listed and watched.
var resources = []*graph.Resource{
	{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	{Name: "secrets", Kind: "Secret", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	{Name: "nodes", Kind: "Node", Versions: []string{"v1"}, Monitored: true},
	{Name: "bindings", Kind: "Binding", Versions: []string{"v1"}, Namespaced: true},
}

func newGraph() *graph.Graph {
	g := graph.New()
	g.SetCatalog(graph.NewCatalog(resources), now)
	for _, r := range resources {
		if r.Monitored {
			g.AddResource(r.GroupResource(), r.GroupKind(), now)
			g.Listed(r.GroupResource(), now)
		}
	}
	return g
}

// put adds an object. Its UID is its name unless the record has one.
func put(g *graph.Graph, resource string, rec graph.Record, owners ...graph.Reference) {
	if rec.UID == "" {
		rec.UID = types.UID(rec.Name)
	}
	rec.ResourceVersion, rec.References = "1", owners
	g.Upsert(schema.GroupResource{Resource: resource}, &rec, now)
}

func ref(kind, name string) graph.Reference {
	return graph.Reference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(name)}
}

// prove tells the graph that every owner that no monitor shows is absent.
func prove(g *graph.Graph) {
	for _, n := range g.Objects() {
		v, _ := g.View(n.Key)
		for i := range v.Owners {
			if o := &v.Owners[i]; o.Observed == nil && o.Resource != nil {
				g.Learn(o.Reference.UID, o.At, graph.Fact{State: graph.Absent})
			}
		}
	}
}

func lines(r Result) (all []string) {
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s %s %s", f.Effect, f.Code, f.Object.Record.Name)
		if f.Reference != nil {
			line += " -> " + f.Reference.Name
		}
		for _, o := range f.Others {
			line += " +" + string(o.Key.UID)
		}
		all = append(all, line)
	}
	return all
}

func run(g *graph.Graph, breaksRings bool) Result {
	return Run(Input{Graph: g, View: g.View, Now: now, BreaksRings: breaksRings})
}

// TestFindings has each code once, beside objects without findings.
func TestFindings(t *testing.T) {
	g := newGraph()
	ns := func(name string) graph.Record { return graph.Record{Namespace: "a", Name: name} }
	blocking := func(r graph.Reference) graph.Reference {
		r.BlockOwnerDeletion = graph.True
		return r
	}
	put(g, "configmaps", ns("owner"))
	put(g, "secrets", ns("fine"), ref("ConfigMap", "owner"))
	put(g, "configmaps", graph.Record{Namespace: "b", Name: "away"})
	put(g, "configmaps", graph.Record{Namespace: "a", Name: "again", UID: "again-2"})
	old := ref("ConfigMap", "again")
	put(g, "secrets", ns("restored"), old)
	put(g, "secrets", ns("strays"), ref("ConfigMap", "ghost"))
	put(g, "secrets", ns("partly"), ref("ConfigMap", "ghost"), ref("ConfigMap", "owner"))
	put(g, "secrets", ns("foreign"), ref("ConfigMap", "away"))
	put(g, "nodes", graph.Record{Name: "wide"}, ref("ConfigMap", "owner"))
	put(g, "secrets", ns("odd"), ref("Gadget", "g"), ref("ConfigMap", "ghost"))
	version := ref("ConfigMap", "owner")
	version.APIVersion = "v9"
	put(g, "secrets", ns("newer"), version)
	controller := ref("ConfigMap", "owner")
	controller.Controller = graph.True
	put(g, "configmaps", ns("other"))
	second := controller
	second.Name, second.UID = "other", "other"
	put(g, "secrets", ns("ruled"), controller, second)
	put(g, "configmaps", ns("r1"), ref("ConfigMap", "r2"))
	put(g, "configmaps", ns("r2"), ref("ConfigMap", "r1"))
	put(g, "configmaps", ns("self"), ref("ConfigMap", "self"), ref("ConfigMap", "owner"))
	deleted := graph.Record{Namespace: "a", Deleting: true, DeletedAt: now.Add(-StuckAfter - time.Second).Unix()}
	stuck, recent := deleted, deleted
	stuck.Name, recent.Name, recent.DeletedAt = "stuck", "recent", now.Add(-StuckAfter).Unix()
	put(g, "configmaps", stuck)
	put(g, "configmaps", recent)
	// As of a pod that terminates after its ReplicaSet has gone: its references decide nothing any more.
	going := recent
	going.Name = "going"
	twice := ref("ConfigMap", "ghost")
	twice.Controller = graph.True
	put(g, "secrets", going, twice, ref("Gadget", "g"), controller)
	waits := deleted
	waits.Name, waits.Foreground = "waits", true
	put(g, "configmaps", waits)
	put(g, "secrets", ns("holds"), graph.Reference{APIVersion: "gone/v1", Kind: "Gadget", Name: "waits", UID: "waits", BlockOwnerDeletion: graph.True})
	for _, name := range []string{"w1", "w2"} {
		member := deleted
		member.Name, member.Foreground = name, true
		put(g, "configmaps", member, blocking(ref("ConfigMap", map[string]string{"w1": "w2", "w2": "w1"}[name])))
	}
	prove(g)
	put(g, "secrets", ns("bound"), ref("Binding", "b"))
	g.Learn("b", graph.Coordinates{Kind: "Binding", Namespace: "a", Name: "b"}, graph.Fact{State: graph.Present, Seen: now})
	put(g, "secrets", ns("doubt"), ref("ConfigMap", "unread"))
	going.Name = "unread-and-going"
	put(g, "secrets", going, ref("ConfigMap", "unread"))

	want := []string{
		"collected wrong-uid restored -> again +again-2",
		"collected dangling strays -> ghost",
		"collected wrong-namespace foreign -> away",
		"stuck unreachable-ring w1 +w2",
		"stuck never-collected waits +holds",
		"stuck stuck-finalizer stuck",
		"dropped dangling partly -> ghost",
		"kept dangling odd -> ghost",
		"kept cluster-scoped wide -> owner",
		"kept unknown-kind holds -> waits",
		"kept unknown-kind odd -> g",
		"kept unknown-version newer -> owner",
		"kept unreachable-ring r1 +r2",
		"kept ring self",
		"kept two-controllers ruled -> other",
		"kept never-collected bound -> b",
	}
	r := run(g, false)
	if got := lines(r); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Unverified != 1 {
		t.Errorf("%d references are unverified", r.Unverified)
	}
	if got := lines(run(g, true)); slices.Contains(got, want[3]) || !slices.Contains(got, "kept unreachable-ring w1 +w2") {
		t.Errorf("where rings are broken:\n%s", strings.Join(got, "\n"))
	}
	codes := map[Code]bool{}
	for _, f := range r.Findings {
		codes[f.Code] = true
	}
	for _, c := range Codes() {
		if !codes[c] {
			t.Errorf("nothing was found of %s", c)
		}
	}
	if all := len(g.Objects()); r.Judged != all {
		t.Errorf("%d of %d objects are judged", r.Judged, all)
	}
	in := Input{Graph: g, View: g.View, Now: now, Only: func(r *graph.Record) bool { return r.Namespace == "b" }}
	if got := Run(in); len(got.Findings) != 0 || got.Unverified != 0 || got.Judged != 1 {
		t.Errorf("where nothing is wrong: %+v", got)
	}
}

func TestLongRing(t *testing.T) {
	const n = 100_000
	g := newGraph()
	for i := range n {
		put(g, "configmaps", graph.Record{Namespace: "a", Name: fmt.Sprint(i)}, ref("ConfigMap", fmt.Sprint((i+1)%n)))
	}
	if r := run(g, true); len(r.Findings) != 1 || len(r.Findings[0].Others) != n-1 {
		t.Errorf("the findings are %+v, want one that names all %d members", r.Findings, n)
	}
}

// thing is an object of a random world.
type thing struct {
	resource, kind, namespace, name string
	uid                             types.UID
	refs                            []graph.Reference
	deleting                        bool // in the background, a moment ago
}

// randomWorld returns a few objects whose references are right or nearly right.
func randomWorld(r *rand.Rand) []thing {
	kinds := [][2]string{{"configmaps", "ConfigMap"}, {"secrets", "Secret"}, {"nodes", "Node"}}
	var all []thing
	for i := range 2 + r.IntN(6) {
		k := kinds[r.IntN(len(kinds))]
		// There are few names, so that other objects take the places; UIDs tell objects
		// apart.
		o := thing{resource: k[0], kind: k[1], name: fmt.Sprint("n", r.IntN(4)), uid: types.UID(fmt.Sprint("u", i))}
		if k[0] != "nodes" {
			o.namespace = string("ab"[r.IntN(2)])
		}
		taken := slices.ContainsFunc(all, func(t thing) bool {
			return t.resource == o.resource && t.namespace == o.namespace && t.name == o.name
		})
		if !taken {
			all = append(all, o)
		}
	}
	for i := range all {
		for range r.IntN(4) {
			to := all[r.IntN(len(all))]
			ref := graph.Reference{APIVersion: "v1", Kind: to.kind, Name: to.name, UID: to.uid}
			switch r.IntN(8) {
			case 0:
				ref.UID = types.UID(fmt.Sprint("ghost", r.IntN(3)))
			case 1:
				ref.Name = fmt.Sprint("n", r.IntN(4))
			case 2:
				ref.Kind = []string{"ConfigMap", "Secret", "Node", "Gadget"}[r.IntN(4)]
			case 3:
				ref.APIVersion = "v9"
			}
			if !slices.Contains(all[i].refs, ref) {
				all[i].refs = append(all[i].refs, ref)
			}
		}
		all[i].deleting = r.IntN(8) == 0
	}
	return all
}

// judged returns the expected finding about a reference, from the definition of the codes
// alone. owner is the index of the owner if the reference is right.
func judged(all []thing, holder thing, r graph.Reference) (code Code, owner int) {
	namespaced := r.Kind != "Node"
	switch {
	case r.Kind == "Gadget":
		return UnknownKind, -1
	case r.APIVersion != "v1":
		return UnknownVersion, -1
	case namespaced && holder.namespace == "":
		return ClusterScoped, -1
	}
	code = Dangling
	for i, o := range all {
		if o.kind != r.Kind || o.name != r.Name {
			continue
		}
		here := !namespaced || o.namespace == holder.namespace
		switch {
		case here && o.uid == r.UID:
			return "", i
		case here && code == Dangling:
			code = WrongUID
		case !here && o.uid == r.UID:
			code = WrongNamespace
		}
	}
	return code, -1
}

// oracle finds the same as Run, slowly and from the objects alone.
func oracle(all []thing) (want []string) {
	reaches := make([][]bool, len(all))
	for i, o := range all {
		reaches[i] = make([]bool, len(all))
		for _, r := range o.refs {
			if _, owner := judged(all, o, r); owner >= 0 {
				reaches[i][owner] = true
			}
		}
	}
	direct := make([][]bool, len(all))
	for i := range reaches {
		direct[i] = slices.Clone(reaches[i])
	}
	for k := range all {
		for i := range all {
			for j := range all {
				reaches[i][j] = reaches[i][j] || reaches[i][k] && reaches[k][j]
			}
		}
	}
	for i, o := range all {
		solid, unsure := false, false
		for _, r := range o.refs {
			code, owner := judged(all, o, r)
			solid = solid || owner >= 0
			unsure = unsure || code == UnknownKind || code == UnknownVersion || code == ClusterScoped
		}
		for _, r := range o.refs {
			code, owner := judged(all, o, r)
			if owner >= 0 || o.deleting {
				continue
			}
			gone := code == Dangling || code == WrongUID || code == WrongNamespace
			e := Kept
			if gone && solid {
				e = Dropped
			} else if gone && !unsure {
				e = Collected
			}
			want = append(want, fmt.Sprintf("%s %s %s %+v", e, code, o.uid, r))
		}
		if !reaches[i][i] {
			continue
		}
		// Each ring is found once, at its first member by UID.
		code, members := UnreachableRing, []string{}
		for j := range all {
			if !reaches[i][j] || !reaches[j][i] {
				continue
			}
			members = append(members, string(all[j].uid))
			for k := range all {
				if direct[j][k] && !(reaches[i][k] && reaches[k][i]) {
					code = Ring
				}
			}
		}
		slices.Sort(members)
		if members[0] == string(o.uid) {
			want = append(want, fmt.Sprintf("%s %s %s", Kept, code, strings.Join(members, ",")))
		}
	}
	slices.Sort(want)
	return want
}

// TestAgainstTheDefinitions compares with an oracle that uses neither the graph nor the
// decisions.
func TestAgainstTheDefinitions(t *testing.T) {
	seen, spared := map[Code]int{}, 0
	for seed := range uint64(5_000) {
		all := randomWorld(rand.New(rand.NewPCG(seed, 1)))
		g := newGraph()
		for _, o := range all {
			rec := graph.Record{Namespace: o.namespace, Name: o.name, UID: o.uid}
			if o.deleting {
				rec.Deleting, rec.DeletedAt = true, now.Unix()
			}
			put(g, o.resource, rec, o.refs...)
			for _, r := range o.refs {
				if _, owner := judged(all, o, r); owner < 0 && o.deleting {
					spared++
				}
			}
		}
		prove(g)
		var got []string
		for _, f := range run(g, true).Findings {
			seen[f.Code]++
			switch {
			case f.Reference != nil:
				got = append(got, fmt.Sprintf("%s %s %s %+v", f.Effect, f.Code, f.Object.Key.UID, *f.Reference))
			default:
				members := []string{string(f.Object.Key.UID)}
				for _, o := range f.Others {
					members = append(members, string(o.Key.UID))
				}
				slices.Sort(members)
				got = append(got, fmt.Sprintf("%s %s %s", f.Effect, f.Code, strings.Join(members, ",")))
			}
		}
		slices.Sort(got)
		if want := oracle(all); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v\ngot\n%s\nwant\n%s", seed, all, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if spared < 100 {
		t.Errorf("%d references of objects that are being deleted would have been findings in all worlds", spared)
	}
	for _, c := range []Code{WrongUID, Dangling, WrongNamespace, ClusterScoped, UnknownKind, UnknownVersion, Ring, UnreachableRing} {
		if seen[c] < 100 {
			t.Errorf("%s was found %d times in all worlds", c, seen[c])
		}
	}
}
