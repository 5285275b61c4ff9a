package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/tests/goldenfile"
)

// TestRoleForReportsAllowsThem: the ClusterRole allows each path of a Handler to be read, and neither snapshots nor anything else.
func TestRoleForReportsAllowsThem(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "reports.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(raw, &role); err != nil {
		t.Fatal(err)
	}
	allowed := func(verb, path string) bool {
		covered, _ := validation.Covers(role.Rules, []rbacv1.PolicyRule{{Verbs: []string{verb}, NonResourceURLs: []string{path}}})
		return covered
	}
	paths := slices.Clone(GraphPaths)
	for _, e := range endpoints {
		paths = append(paths, Root+e.name)
	}
	for _, path := range paths {
		if !allowed("get", path) || allowed("post", path) {
			t.Errorf("%s: get is allowed: %v, post: %v", path, allowed("get", path), allowed("post", path))
		}
	}
	if allowed("post", "/reap/v1/snapshot") || allowed("get", "/metrics") || allowed("get", "/debug/pprof/") {
		t.Error("it allows more than reports")
	}
}

// TestReferenceOfPaths compares docs/http.md with the paths that a Handler serves.
func TestReferenceOfPaths(t *testing.T) {
	var b strings.Builder
	b.WriteString("| path | parameters | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		parameters := "none"
		if e.takes != "" {
			parameters = "`?" + string(e.takes) + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s |\n", Root, e.name, parameters, e.does)
	}
	for _, path := range GraphPaths {
		fmt.Fprintf(&b, "| `%s` | `?%s` | the graph in DOT (`text/vnd.graphviz`), where kube-controller-manager serves that of its collector: the objects that are connected with those UIDs, or all |\n", path, graphTakes)
	}
	goldenfile.Section(t, filepath.Join("..", "..", "..", "docs", "http.md"), "The list of reports", b.String())
}
