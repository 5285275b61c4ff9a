package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCollectorReadsFromTopToBottom holds pkg/gc against the order of its files in
// docs/architecture.md: each uses only what later ones declare. The methods that a file
// adds to a type of a later one are for the files above that one.
func TestCollectorReadsFromTopToBottom(t *testing.T) {
	dir := filepath.Join("..", "..", "pkg", "gc")
	order := filesInOrder(t)
	found, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && !slices.Contains(order, name) {
			t.Errorf("docs/architecture.md does not say where %s comes", name)
		}
	}
	at := map[string]int{}      // where a name of the package is declared
	methods := map[string]int{} // where one is that is not declared beside its type
	files := make([]*ast.File, len(order))
	for i, name := range order {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
		for _, d := range f.Decls {
			for _, declared := range declares(d) {
				at[declared] = i
			}
		}
	}
	for i, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && at[receiver(fn)] > i {
				methods[fn.Name.Name] = i
			}
		}
	}
	for i, f := range files {
		for _, used := range f.Unresolved {
			if j, ours := at[used.Name]; ours && j < i {
				t.Errorf("%s uses %s of %s, which comes before it", order[i], used.Name, order[j])
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if j, ours := methods[s.Sel.Name]; ours && j < i {
					t.Errorf("%s may use the method %s of %s, which comes before it", order[i], s.Sel.Name, order[j])
				}
			}
			return true
		})
	}
}

// filesInOrder reads the table of files from docs/architecture.md.
func filesInOrder(t *testing.T) (names []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "## The files of pkg/gc")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.go)` \\|").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
	}
	if len(names) < 10 {
		t.Fatalf("docs/architecture.md lists %d files", len(names))
	}
	return names
}

// declares returns the names of the package that a declaration adds, without methods.
func declares(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if i, ok := of.(*ast.Ident); ok {
		return i.Name
	}
	return ""
}
