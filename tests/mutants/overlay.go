package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// chosenVariable is the environment variable that names the mutant at work in a test binary.
const chosenVariable = "REAP_TEST_MUTANT"

// A test binary holds all mutants, since building and linking one for each would take hours: a function with mutants
// begins by asking which one is at work, if any, and calls a copy of itself that has the wrong line.
//
//	func (g *gate) allow() error { if chosenMutant == "gate-open…" { return g.allow_mutant7() }; …
//
// writeOverlay writes the files with mutants below dir, and the overlay that puts them in the place of the real ones.
func writeOverlay(dir string, all []*mutant) (overlay string, err error) {
	replace := map[string]string{}
	put := func(path string, source []byte) error {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		return os.WriteFile(replace[path], source, 0o600)
	}
	byFile := map[string][]*mutant{}
	packages := map[string]string{} // by folder
	for _, m := range all {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for file, mutants := range byFile {
		source, pkg, err := withMutants(file, mutants)
		if err != nil {
			return "", err
		}
		packages[filepath.Dir(file)] = pkg
		if err := put(file, source); err != nil {
			return "", err
		}
	}
	for folder, pkg := range packages {
		source := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar chosenMutant = os.Getenv(%q)\n", pkg, chosenVariable)
		if err := put(filepath.Join(folder, "mutant_chosen.go"), []byte(source)); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

// insertion is text that goes into a file before an offset.
type insertion struct {
	at, length int // length bytes are taken out there
	text       string
}

// withMutants returns a file with mutants in it, all asleep, and the name of its package.
func withMutants(file string, mutants []*mutant) (source []byte, pkg string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, raw, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	var changes []insertion
	var copies bytes.Buffer
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var asks strings.Builder
		for _, m := range mutants {
			if m.function != nameOf(f) {
				continue
			}
			copied := fmt.Sprintf("%s_mutant%d", f.Name.Name, m.number)
			body, err := m.copied(copied)
			if err != nil {
				return nil, "", err
			}
			copies.WriteString("\n" + body + "\n")
			call, err := callOf(f, copied)
			if err != nil {
				return nil, "", fmt.Errorf("mutant %s: %w", m.name, err)
			}
			fmt.Fprintf(&asks, "if chosenMutant == %q { %s }; ", m.name, call)
		}
		if asks.Len() > 0 {
			changes = append(changes, insertion{at: set.Position(f.Body.Lbrace).Offset + 1, text: " " + asks.String()})
			changes = append(changes, named(set, f)...)
		}
	}
	slices.SortFunc(changes, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var out bytes.Buffer
	done := 0
	for _, c := range changes {
		out.Write(raw[done:c.at])
		out.WriteString(c.text)
		done = c.at + c.length
	}
	out.Write(raw[done:])
	out.Write(copies.Bytes())
	return out.Bytes(), parsed.Name.Name, nil
}

// copied returns the function with the mutant, under another name.
func (m *mutant) copied(name string) (string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, m.file, m.source, parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.name, err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && nameOf(f) == m.function {
			at := func(p token.Pos) int { return set.Position(p).Offset }
			return string(m.source[at(f.Pos()):at(f.Name.Pos())]) + name + string(m.source[at(f.Name.End()):at(f.End())]), nil
		}
	}
	return "", fmt.Errorf("mutant %s: its function has another name", m.name)
}

// blank is the name that a parameter gets which has none.
func blank(i int) string { return fmt.Sprintf("mutantArgument%d", i) }

// named names the parameters of a function that are called _.
func named(set *token.FileSet, f *ast.FuncDecl) (changes []insertion) {
	i := 0
	for _, field := range f.Type.Params.List {
		for _, n := range field.Names {
			if n.Name == "_" {
				changes = append(changes, insertion{at: set.Position(n.Pos()).Offset, length: 1, text: blank(i)})
			}
			i++
		}
	}
	return changes
}

// callOf returns the statements that call a copy of a function with its own arguments and return what that returns.
func callOf(f *ast.FuncDecl, copied string) (string, error) {
	call := copied
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 {
			return "", errors.New("its method's receiver has no name")
		}
		call = f.Recv.List[0].Names[0].Name + "." + copied
	}
	var arguments []string
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			return "", errors.New("its function's parameters have no names")
		}
		for _, n := range field.Names {
			a := n.Name
			if a == "_" {
				a = blank(len(arguments))
			}
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				a += "..."
			}
			arguments = append(arguments, a)
		}
	}
	call += "(" + strings.Join(arguments, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}
