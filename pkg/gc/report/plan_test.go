package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/plan"
)

// fates returns a graph for plans: an owner with dependents of every fate.
func fates() *graph.Graph {
	g := graph.New()
	resources := []*graph.Resource{
		{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
		{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
		{Name: "namespaces", Kind: "Namespace", Versions: []string{"v1"}, Monitored: true},
	}
	g.SetCatalog(graph.NewCatalog(resources), now)
	for _, r := range resources {
		g.AddResource(r.GroupResource(), r.GroupKind(), now)
		g.Listed(r.GroupResource(), now)
	}
	put := func(kind, uid string, rec graph.Record, owners ...graph.Reference) {
		rec.Namespace, rec.Name, rec.UID, rec.ResourceVersion, rec.References = "shop", uid, types.UID(uid), "1", owners
		gr := schema.GroupResource{Resource: strings.ToLower(kind) + "s"}
		if kind == "Namespace" {
			rec.Namespace = ""
		}
		g.Upsert(gr, &rec, now)
	}
	ref := func(kind, uid string) graph.Reference {
		return graph.Reference{APIVersion: "v1", Kind: kind, Name: uid, UID: types.UID(uid), BlockOwnerDeletion: graph.True}
	}
	put("Namespace", "shop", graph.Record{})
	put("ConfigMap", "root", graph.Record{})
	put("ConfigMap", "other", graph.Record{})
	for i := range 3 {
		put("Pod", fmt.Sprintf("pod%d", i), graph.Record{}, ref("ConfigMap", "root"))
	}
	put("ConfigMap", "middle", graph.Record{}, ref("ConfigMap", "root"))
	put("ConfigMap", "leaf", graph.Record{}, ref("ConfigMap", "middle"))
	put("ConfigMap", "held", graph.Record{OtherFinalizers: true}, ref("ConfigMap", "middle"))
	put("ConfigMap", "shared", graph.Record{}, ref("ConfigMap", "root"), ref("ConfigMap", "other"))
	put("ConfigMap", "odd", graph.Record{}, ref("ConfigMap", "root"), ref("Gadget", "nobody"))
	put("ConfigMap", "ring1", graph.Record{}, ref("ConfigMap", "root"), ref("ConfigMap", "ring2"))
	put("ConfigMap", "ring2", graph.Record{}, ref("ConfigMap", "ring1"))
	return g
}

// readLive adds to a plan what a command would read live.
func readLive(p *Plan) {
	for i := range p.Objects {
		switch o := &p.Objects[i]; o.Object.Name {
		case "held":
			o.Live = Live{Created: now.Add(-72 * time.Hour), Finalizers: []string{"foregroundDeletion", "example.com/hold", "example.com/keep"}}
		case "leaf":
			o.Live = Live{Gone: true}
		default:
			o.Live = Live{Created: now.Add(-time.Minute), Ready: "1/1"}
		}
	}
}

func foretold(res *plan.Result, err error) *plan.Result {
	if err != nil {
		panic(err)
	}
	return res
}

func TestPlan(t *testing.T) {
	rules := plan.Rules{Options: decide.Options{Timeout: decide.Timeout{Base: 10 * time.Minute, PerDependent: time.Second}}, Rings: true}
	for name, q := range map[string]PlanRequest{
		"plan-background": {Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Background"},
		"plan-foreground": {Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Foreground"},
		"plan-orphan":     {Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Orphan"},
		"plan-namespace":  {Targets: []graph.Key{{Resource: schema.GroupResource{Resource: "namespaces"}, UID: "shop"}}, Policy: "Background"},
		"plan-live":       {Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Background"},
		"plan-limit":      {Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Background", Limit: 4},
	} {
		p := PlanOf(foretold(plan.Take(fates(), q.Targets).Delete(context.Background(), metav1.DeletionPropagation(q.Policy), rules, now)), q, now)
		p.Basis = Basis{Source: FromCollector, Rules: RulesOfReap}
		if name == "plan-live" {
			readLive(&p)
		}
		var out bytes.Buffer
		if err := p.Print(&out); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		if err := e.Encode(p); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: %v: got\n%s\nwant\n%s", name, err, &out, want)
		}
	}
}

// TestPlanListsTargetsAndWhatStaysFirst: but some of what goes, if anything does.
func TestPlanListsTargetsAndWhatStaysFirst(t *testing.T) {
	for _, tc := range []struct {
		fates, want string // by their first letters; a capital is a target
		limit       int
	}{
		{"gggGuf", "gGu", 3},
		{"gggGsuf", "gggGsu", 6},
		{"gGsssss", "gGss", 4}, // all that goes needs one line
		{"gGsssss", "gGsssss", 0},
		{"GGGs", "GG", 2},
	} {
		var res plan.Result
		requested := map[graph.Key]bool{}
		for i, c := range tc.fates {
			k := graph.Key{Resource: configMaps, UID: types.UID(fmt.Sprint(i))}
			requested[k] = c == 'G'
			fate := map[rune]plan.Fate{'s': plan.Stuck, 'u': plan.Unchanged, 'f': plan.Freed, 'g': plan.Gone, 'G': plan.Gone}[c]
			res.Objects = append(res.Objects, plan.Object{Key: k, Fate: fate})
		}
		var got strings.Builder
		for _, i := range planListed(&res, requested, tc.limit) {
			got.WriteByte(tc.fates[i])
		}
		if got.String() != tc.want {
			t.Errorf("%d of %s are %s, want %s", tc.limit, tc.fates, &got, tc.want)
		}
	}
}

func TestFateInWords(t *testing.T) {
	ref := func(name string) graph.Reference { return graph.Reference{Kind: "ConfigMap", Name: name} }
	lost := []graph.Reference{ref("a"), ref("b"), ref("c")}
	record := &graph.Record{Name: "x", UID: "x"}
	for want, o := range map[string]plan.Object{
		"": {Fate: plan.Gone, Loses: lost},
		"blocked by configmaps/x; its foreground deletion times out before that": {
			Fate: plan.Stuck, Held: plan.Reason(decide.WaitsForDependent), TimedOut: true, Blockers: []int{0}},
		"until all resources that may hold dependents of it can be listed": {Fate: plan.Stuck, Held: plan.OrphaningWaits},
		"loses its reference to ConfigMap a, ConfigMap b and 1 more; kept by ConfigMap d": {
			Fate: plan.Freed, Held: plan.Reason(decide.OwnerSolid), Loses: lost, Keeps: []plan.Kept{{Reference: ref("d"), State: decide.Solid}, {Reference: ref("e"), State: decide.Unknown}}},
		"no owner keeps it, but Kubernetes' collector looks at it again only when something changes": {Fate: plan.Unchanged, Held: plan.GivenUp},
	} {
		o.Key, o.Record, o.By = graph.Key{Resource: configMaps, UID: "x"}, record, -1
		if got := planned(&plan.Result{Objects: []plan.Object{o}}, &o, nil).Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPlanInColours: without the colours the text is the same.
func TestPlanInColours(t *testing.T) {
	q := PlanRequest{Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Background"}
	p := PlanOf(foretold(plan.Take(fates(), q.Targets).Delete(context.Background(), metav1.DeletePropagationBackground, plan.Rules{}, now)), q, now)
	readLive(&p)
	mark := func(with string) func(string) string {
		return func(s string) string { return with + s + with }
	}
	var plain, coloured bytes.Buffer
	if err := errors.Join(p.Print(&plain), p.PrintIn(&coloured, Palette{Bad: mark("\x01"), Strong: mark("\x02"), Faint: mark("\x03")})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x02" + p.summary() + "\x02", "\x01stays Terminating, until the finalizers example.com/hold, example.com/keep are taken off\x01\n", "\x03goes\x03\n"} {
		if !strings.Contains(coloured.String(), want) {
			t.Errorf("no %q in\n%s", want, &coloured)
		}
	}
	if got := strings.NewReplacer("\x01", "", "\x02", "", "\x03", "").Replace(coloured.String()); got != plain.String() {
		t.Errorf("got\n%s\nwant\n%s", got, &plain)
	}
}
