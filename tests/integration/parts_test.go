package integration

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// part is the variable with which scripts/test runs the tests in two processes at once, since testing lets those that run side by side
// begin only when all others have ended. Its values are alone and together; without it all tests run.
const part = "REAP_TEST_PART"

const (
	alone    = "alone"    // one after the other
	together = "together" // side by side
)

// choosePart leaves out the tests of the other part.
func choosePart() error {
	chosen := os.Getenv(part)
	if chosen == "" {
		return nil
	}
	byPart, err := parts(".")
	if err != nil {
		return err
	}
	other, ok := map[string]string{alone: together, together: alone}[chosen]
	if !ok {
		return fmt.Errorf("%s is %q, and can be %s or %s", part, chosen, alone, together)
	}
	skip := "^(" + strings.Join(byPart[other], "|") + ")$"
	if given := flag.Lookup("test.skip").Value.String(); given != "" {
		skip += "|" + given
	}
	return flag.Set("test.skip", skip)
}

// parts returns the names of the tests in a directory, by part. Those that run side by side say so with their own t.Parallel.
func parts(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	byPart := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			in := alone
			for _, s := range f.Body.List {
				if isParallel(s) {
					in = together
				}
			}
			byPart[in] = append(byPart[in], f.Name.Name)
		}
	}
	return byPart, nil
}

// isParallel reports whether a statement is t.Parallel().
func isParallel(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == "Parallel"
}

// TestEachTestIsInOnePart: one in both would be left out of both, where a build tag chooses between two tests of a name.
func TestEachTestIsInOnePart(t *testing.T) {
	byPart, err := parts(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range byPart[alone] {
		if slices.Contains(byPart[together], name) {
			t.Errorf("%s runs both alone and together", name)
		}
	}
	if !slices.Contains(byPart[together], "TestSignals") || !slices.Contains(byPart[alone], "TestGraphvizDrawsTheGraph") {
		t.Errorf("the parts are not told apart: %q", byPart)
	}
}
