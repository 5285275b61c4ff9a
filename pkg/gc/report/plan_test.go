package report

import (
	"bytes"
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
		p := PlanOf(plan.Take(fates(), q.Targets).Delete(metav1.DeletionPropagation(q.Policy), rules, now), q, now)
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

// TestPlanInColours: without the colours the text is the same.
func TestPlanInColours(t *testing.T) {
	q := PlanRequest{Targets: []graph.Key{{Resource: configMaps, UID: "root"}}, Policy: "Background"}
	p := PlanOf(plan.Take(fates(), q.Targets).Delete(metav1.DeletePropagationBackground, plan.Rules{}, now), q, now)
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
