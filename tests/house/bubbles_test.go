package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestBubblesAreSafeWithTheRaceDetector: tests use tests/bubble, and not synctest.Test, which the race detector does not survive.
func TestBubblesAreSafeWithTheRaceDetector(t *testing.T) {
	used := 0
	for _, top := range []string{"pkg", "tests"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || s.Sel.Name != "Test" {
					return true
				}
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "synctest" {
					used++
					if filepath.Base(filepath.Dir(path)) != "bubble" {
						t.Errorf("%s: use bubble.Test of tests/bubble", set.Position(s.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if used == 0 {
		t.Error("tests/bubble does not use synctest.Test, so this test looks for the wrong name")
	}
}
