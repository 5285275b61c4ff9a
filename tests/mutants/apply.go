package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
)

// apply makes the file's source with the mutant in it.
func (m *mutant) apply() error {
	raw, err := os.ReadFile(m.file)
	if err != nil {
		return fmt.Errorf("mutant %s: %w", m.name, err)
	}
	lines := strings.Split(string(raw), "\n")
	from, to, err := linesOf(m.file, raw, m.function)
	if err != nil {
		return fmt.Errorf("mutant %s: %w", m.name, err)
	}
	at := -1
	for i := from; i+len(m.before) <= to; i++ {
		same := slices.EqualFunc(lines[i:i+len(m.before)], m.before, func(line, want string) bool { return strings.TrimSpace(line) == want })
		switch {
		case !same:
		case at >= 0:
			return fmt.Errorf("mutant %s: %s has its line more than once: %q", m.name, m.place(), m.before[0])
		default:
			at = i
		}
	}
	if at < 0 {
		return fmt.Errorf("mutant %s: %s does not have its line any more: %q", m.name, m.place(), m.before[0])
	}
	m.source = []byte(strings.Join(slices.Replace(lines, at, at+len(m.before), m.after...), "\n"))
	if bytes.Equal(m.source, raw) {
		return fmt.Errorf("mutant %s changes nothing", m.name)
	}
	return nil
}

// linesOf returns the lines of a function, from 0, without the one after the last.
func linesOf(file string, source []byte, function string) (from, to int, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && nameOf(f) == function {
			return set.Position(f.Pos()).Line - 1, set.Position(f.End()).Line, nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no function %s", file, function)
}

// nameOf returns a function's name, with its receiver's type in front if it has one.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if named, ok := t.(*ast.Ident); ok {
		return named.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
