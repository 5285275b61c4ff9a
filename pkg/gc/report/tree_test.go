package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

// golden compares with a golden file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s (%v): got\n%s\nwant\n%s", name, err, got, want)
	}
}

// shop returns a graph with a Deployment and its pods, one of which is being deleted, an
// object with several owners, one of which is missing, a ring, and a cluster-scoped owner.
func shop() *graph.Graph {
	g := graph.New()
	var all []*graph.Resource
	for _, r := range []*graph.Resource{
		{Group: "apps", Name: "deployments", Kind: "Deployment", Versions: []string{"v1"}, Namespaced: true},
		{Group: "apps", Name: "replicasets", Kind: "ReplicaSet", Versions: []string{"v1"}, Namespaced: true},
		{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true},
		{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true},
		{Name: "nodes", Kind: "Node", Versions: []string{"v1"}},
	} {
		r.Monitored = true
		all = append(all, r)
	}
	g.SetCatalog(graph.NewCatalog(all), now)
	for _, r := range all {
		g.AddResource(r.GroupResource(), r.GroupKind(), now)
	}
	put := func(resource string, rec graph.Record, owners ...graph.Reference) {
		rec.UID, rec.ResourceVersion, rec.References = types.UID(rec.Name), "1", owners
		if resource != "nodes" && rec.Namespace == "" {
			rec.Namespace = "shop"
		}
		g.Upsert(schema.ParseGroupResource(resource), &rec, now)
	}
	ref := func(apiVersion, kind, name string) graph.Reference {
		return graph.Reference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), BlockOwnerDeletion: graph.True}
	}
	put("nodes", graph.Record{Name: "edge-1"})
	put("deployments.apps", graph.Record{Name: "web", Deleting: true, Foreground: true, DeletedAt: now.Add(-time.Minute).Unix()})
	put("replicasets.apps", graph.Record{Name: "web-1"}, ref("apps/v1", "Deployment", "web"))
	put("replicasets.apps", graph.Record{Name: "web-2"}, ref("apps/v1", "Deployment", "web"))
	for i := range 3 {
		put("pods", graph.Record{Name: fmt.Sprint("web-1-", i), Deleting: i == 1, DeletedAt: now.Add(-time.Hour).Unix()}, ref("apps/v1", "ReplicaSet", "web-1"))
	}
	put("configmaps", graph.Record{Name: "shared"}, ref("apps/v1", "ReplicaSet", "web-1"), ref("apps/v1", "ReplicaSet", "web-2"), ref("v1", "Node", "edge-1"), ref("v1", "ConfigMap", "ghost"))
	put("configmaps", graph.Record{Name: "mirror", Namespace: "kube-system"}, ref("v1", "Node", "edge-1"))
	put("configmaps", graph.Record{Name: "r1"}, ref("v1", "ConfigMap", "r2"))
	put("configmaps", graph.Record{Name: "r2"}, ref("v1", "ConfigMap", "r1"), ref("v1", "ConfigMap", "r2"))
	put("configmaps", graph.Record{Name: "odd"}, ref("v1", "Gadget", "g"))
	g.Learn("ghost", graph.Coordinates{Kind: "ConfigMap", Namespace: "shop", Name: "ghost"}, graph.Fact{State: graph.Absent})
	return g
}

func key(resource, name string) graph.Key {
	return graph.Key{Resource: schema.ParseGroupResource(resource), UID: types.UID(name)}
}

func TestTrees(t *testing.T) {
	g := shop()
	collector := Basis{Source: FromCollector, Rules: RulesOfReap, Objects: 12}
	for name, o := range map[string]TreeOptions{
		"tree-of-one":       {Keys: []graph.Key{key("replicasets.apps", "web-1")}},
		"tree-of-namespace": {Namespace: "shop"},
		"tree-of-all":       {},
		"tree-cut-short":    {Keys: []graph.Key{key("deployments.apps", "web")}, Limit: 5},
		"tree-of-nothing":   {Namespace: "default"},
	} {
		tree := NewTree(g, g.View, o, collector, now)
		for i := range tree.Nodes {
			if n := &tree.Nodes[i]; n.Object.Resource == "pods" {
				n.Created, n.Ready = now.Add(-3*time.Hour), "1/1"
				if !n.DeletedAt.IsZero() {
					n.Finalizers = []string{"example.com/hold"}
				}
			}
		}
		var out bytes.Buffer
		if err := tree.Print(&out); err != nil {
			t.Error(err)
		}
		if err := tree.PrintDOT(&out); err != nil {
			t.Error(err)
		}
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		if err := e.Encode(tree); err != nil {
			t.Error(err)
		}
		golden(t, name, out.Bytes())
	}
}

// TestTreeCountsWhatItCuts: every object counts in the tree once, whether it is printed or
// not.
func TestTreeCountsWhatItCuts(t *testing.T) {
	g := shop()
	whole := NewTree(g, g.View, TreeOptions{}, Basis{}, now)
	for limit := 1; limit <= whole.Count; limit++ {
		tree := NewTree(g, g.View, TreeOptions{Limit: limit}, Basis{}, now)
		if tree.Count != whole.Count || len(tree.Nodes) != limit {
			t.Errorf("with the limit %d the tree shows %d nodes and counts %d, want %d", limit, len(tree.Nodes), tree.Count, whole.Count)
		}
		var out bytes.Buffer
		if err := tree.Print(&out); err != nil || strings.Contains(out.String(), "--limit=0") != (limit < whole.Count) {
			t.Errorf("limit %d (%v):\n%s", limit, err, &out)
		}
	}
}

// TestDeepTree: the lines of a deep tree are not as long as it is deep.
func TestDeepTree(t *testing.T) {
	g := world()
	const n = 5000
	for i := range n {
		rec := &graph.Record{Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}
		if i > 0 {
			rec.References = []graph.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint(i - 1), UID: types.UID(fmt.Sprint(i - 1))}}
		}
		g.Upsert(configMaps, rec, now)
	}
	tree := NewTree(g, g.View, TreeOptions{Keys: []graph.Key{{Resource: configMaps, UID: "2500"}}}, Basis{}, now)
	var out bytes.Buffer
	if err := tree.Print(&out); err != nil || tree.Count != n || out.Len() > n*400 {
		t.Errorf("%v: %d objects, %d bytes", err, tree.Count, out.Len())
	}
}

func TestLintReports(t *testing.T) {
	g := shop()
	for name, l := range map[string]Lint{
		"lint": NewLint(lint.Input{Graph: g, View: g.View, Now: now}, LintOptions{}, Basis{Source: FromListing, Rules: RulesOfKubernetes, Note: "no collector", Objects: 12},
			func(k graph.Key, f *Finding) { f.Finalizers = []string{"example.com/hold"} }),
		"lint-cut-short": NewLint(lint.Input{Graph: g, View: g.View, Now: now}, LintOptions{Limit: 1}, Basis{Source: FromCollector, Rules: RulesOfReap, Objects: 12},
			func(k graph.Key, f *Finding) { f.File = "dir/" + f.Object.Name + ".yaml" }),
		"lint-of-namespace": NewLint(lint.Input{Graph: g, View: g.View, Now: now}, LintOptions{Namespace: "shop", Limit: 1}, Basis{Source: FromCollector, Rules: RulesOfReap, Objects: 12}, nil),
		"lint-nothing":      NewLint(lint.Input{Graph: g, View: g.View, Now: now}, LintOptions{Namespace: "kube-system"}, Basis{Source: FromCollector, Objects: 12}, nil),
	} {
		var out bytes.Buffer
		if err := l.Print(&out); err != nil {
			t.Error(err)
		}
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		if err := e.Encode(l); err != nil {
			t.Error(err)
		}
		var text bytes.Buffer
		if err := l.PrintSARIF(&text, "v0.0.0"); err != nil {
			t.Error(err)
		}
		if _, err := sarif.FromBytes(text.Bytes(), sarif.WithStrictValidation()); err != nil {
			t.Errorf("%s is no SARIF: %v", name, err)
		}
		out.Write(text.Bytes())
		golden(t, name, out.Bytes())
	}
}
