package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestSequentialPackagesStartNoGoroutines: what scripts/test says of the packages that the race detector has nothing to look for in.
func TestSequentialPackagesStartNoGoroutines(t *testing.T) {
	concurrent := []string{"sync", "sync/atomic", "golang.org/x/sync/errgroup"}
	for _, dir := range listedIn(t, "scripts/test", `(?m)^sequential='(.*)'$`) {
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
					t.Errorf("%s: a goroutine: scripts/test should not list %s as sequential", set.Position(n.Pos()), dir)
				case *ast.ImportSpec:
					if name, err := strconv.Unquote(n.Path.Value); err == nil && slices.Contains(concurrent, name) {
						t.Errorf("%s: an import of %s: scripts/test should not list %s as sequential", set.Position(n.Pos()), name, dir)
					}
				}
				return true
			})
		}
	}
}
