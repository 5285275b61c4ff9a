package storage

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// suitePackage is the API server's suite.
const suitePackage = "k8s.io/apiserver/pkg/storage/testing"

// notCalled are the functions of the suite's package that no entry calls, with the reason.
var notCalled = map[string]string{
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": "bookmarks without being asked are the watch cache's, which has this test upstream",
}

// TestEveryFunctionOfTheSuiteIsCalled: none is forgotten when a new version of the API server adds one.
func TestEveryFunctionOfTheSuiteIsCalled(t *testing.T) {
	raw, err := exec.Command("go", "list", "-f", "{{.Dir}}", suitePackage).Output()
	if err != nil {
		t.Fatalf("looking for %s: %v", suitePackage, err)
	}
	exported := map[string]bool{}
	for _, file := range parseAll(t, strings.TrimSpace(string(raw)), func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		for _, d := range file.Decls {
			// The benchmarks promise nothing.
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") && !strings.HasPrefix(f.Name.Name, "RunBenchmark") {
				exported[f.Name.Name] = true
			}
		}
	}
	called := map[string]bool{}
	for _, file := range parseAll(t, ".", func(name string) bool { return name == "suite_test.go" }) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "storagetesting" {
					called[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	if len(exported) < 40 {
		t.Fatalf("found only %d functions in %s", len(exported), suitePackage)
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		switch reason := notCalled[name]; {
		case !called[name] && reason == "":
			t.Errorf("%s is not called", name)
		case called[name] && reason != "":
			t.Errorf("%s is called, and is listed as not called: %s", name, reason)
		}
	}
	for name := range notCalled {
		if !exported[name] {
			t.Errorf("there is no %s, which is listed as not called", name)
		}
	}
}

// parseAll returns the Go files of a directory that have a wanted name.
func parseAll(t *testing.T, dir string, wanted func(name string) bool) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !wanted(filepath.Base(path)) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
