package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPurePackagesStartNoGoroutines: the race detector has nothing to look for in the packages of the row "pure" in tests/suites.yaml.
func TestPurePackagesStartNoGoroutines(t *testing.T) {
	concurrent := []string{"sync", "sync/atomic", "golang.org/x/sync/errgroup"}
	for _, dir := range purePackages(t) {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no files (%v)", dir, err)
		}
		for _, path := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine: tests/suites.yaml should not list %s as pure", set.Position(n.Pos()), dir)
				case *ast.ImportSpec:
					if name, err := strconv.Unquote(n.Path.Value); err == nil && slices.Contains(concurrent, name) {
						t.Errorf("%s: an import of %s: tests/suites.yaml should not list %s as pure", set.Position(n.Pos()), name, dir)
					}
				}
				return true
			})
		}
	}
}

func purePackages(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "suites.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Suites []struct {
			Name     string
			Packages []string
		}
	}
	if err := yaml.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	for _, s := range table.Suites {
		if s.Name == "pure" {
			return s.Packages
		}
	}
	t.Fatal("tests/suites.yaml has no row pure")
	return nil
}
