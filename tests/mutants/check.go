package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checkTests checks that every test that should notice a mutant exists.
func checkTests(all []*mutant) error {
	known := map[string]map[string]bool{} // by package
	for _, m := range all {
		for _, t := range m.tests {
			if known[t.pkg] == nil {
				names, err := testsIn(t.pkg)
				if err != nil {
					return err
				}
				known[t.pkg] = names
			}
			for _, name := range t.names() {
				name, _, _ = strings.Cut(name, "/")
				if !known[t.pkg][name] {
					return fmt.Errorf("mutant %s: %s has no test %s", m.name, t.pkg, name)
				}
			}
		}
	}
	return nil
}

// testsIn returns the names of a package's tests.
func testsIn(pkg string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names, nil
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, CgoFiles       []string
}

// checkAll checks that every mutant compiles: it checks its package's types, which takes a moment, where a compiler
// and a linker would take minutes for all of them.
func checkAll(ctx context.Context, all []*mutant, tags string) error {
	var paths []string
	seen := map[string]bool{}
	for _, m := range all {
		if p := "./" + m.area(); !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
	}
	list := exec.CommandContext(ctx, "go", append([]string{
		"list", "-export", "-deps", "-trimpath", "-tags", tags, "-json=ImportPath,Dir,Export,GoFiles,CgoFiles",
	}, paths...)...)
	list.Stderr = os.Stderr
	raw, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	exports, byDir := map[string]string{}, map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("listing packages: %w", err)
		}
		exports[p.ImportPath] = p.Export
		byDir[p.Dir] = p
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	broken := 0
	for _, m := range all {
		if err := m.compiles(set, imports, byDir); err != nil {
			broken++
			fmt.Printf("mutant %s does not compile: %v\n", m.name, err)
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d mutants do not compile", broken, len(all))
	}
	fmt.Printf("%d mutants apply and compile\n", len(all))
	return nil
}

// compiles checks the types of the mutant's package.
func (m *mutant) compiles(set *token.FileSet, imports types.Importer, byDir map[string]listed) error {
	path, err := filepath.Abs(m.file)
	if err != nil {
		return err
	}
	p := byDir[filepath.Dir(path)]
	var files []*ast.File
	found := false
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		var source any
		if name == filepath.Base(path) {
			source, found = m.source, true
		}
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if !found {
		return fmt.Errorf("%s is not built here", m.file)
	}
	var failed error
	config := types.Config{Importer: imports, FakeImportC: true, Error: func(err error) {
		// What the function as it is imports is imported in any case.
		if failed == nil && !(strings.Contains(err.Error(), "imported") && strings.HasSuffix(err.Error(), "and not used")) {
			failed = err
		}
	}}
	_, _ = config.Check(p.ImportPath, set, files, nil) // returns the first error
	return failed
}
