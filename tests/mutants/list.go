package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// mutant is one wrong line, and the tests that should notice it.
type mutant struct {
	number        int // its place in the lists
	name          string
	file          string // below the top of the checkout, with slashes
	function      string // Name or Receiver.Name
	before, after []string
	tests         []tests
	source        []byte // the file with the mutant, once it has been applied
}

// tests are some tests of one package.
type tests struct {
	pkg string // as ./pkg/gc
	run string // names, joined by |; empty for all, and after ! all but those
}

// names returns the names of the tests, or of those that are left out; none for all tests of the package.
func (t tests) names() []string {
	if t.run == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(t.run, "!"), "|")
}

// flags returns a test binary's flags that choose the tests.
func (t tests) flags() []string {
	var all []string
	for _, name := range t.names() {
		all = append(all, "^"+strings.Join(strings.Split(name, "/"), "$/^")+"$")
	}
	flag := "-test.run="
	if strings.HasPrefix(t.run, "!") {
		flag = "-test.skip="
	}
	return []string{flag + strings.Join(all, "|")}
}

// place says where the mutant is.
func (m *mutant) place() string { return m.file + " " + m.function }

// area is the package that the mutant is in.
func (m *mutant) area() string { return path.Dir(m.file) }

// readLists reads all lists.
func readLists(pattern string) (all []*mutant, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		list, err := parse(string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", f, err)
		}
		for _, m := range list {
			if names[m.name] {
				return nil, fmt.Errorf("%s: there are two mutants %s", f, m.name)
			}
			names[m.name] = true
			m.number = len(all)
			all = append(all, m)
		}
	}
	return all, nil
}

// parse reads one list.
func parse(text string) (list []*mutant, err error) {
	var file string
	usual := map[string][]tests{} // by file
	var m *mutant                 // the one being read
	for i, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		bad := func(why string) error { return fmt.Errorf("%d: %s: %q", i+1, why, line) }
		switch word {
		case "", "#":
			if line == "" {
				m = nil
			}
		case "file":
			file, m = rest, nil
		case "mutant":
			name, function, _ := strings.Cut(rest, " in ")
			m = &mutant{name: name, file: file, function: function}
			list = append(list, m)
		case "test":
			pkg, names, _ := strings.Cut(rest, " ")
			if !strings.HasPrefix(pkg, "./") {
				return nil, bad("a package is needed")
			}
			if m == nil {
				usual[file] = append(usual[file], tests{pkg, names})
			} else {
				m.tests = append(m.tests, tests{pkg, names})
			}
		case "-", "+":
			switch {
			case m == nil:
				return nil, bad("there is no mutant before this")
			case word == "-":
				m.before = append(m.before, rest)
			default:
				m.after = append(m.after, rest)
			}
		default:
			return nil, bad("not understood")
		}
	}
	for _, m := range list {
		if len(m.tests) == 0 {
			m.tests = usual[m.file]
		}
		if m.file == "" || m.function == "" || len(m.before) == 0 || len(m.tests) == 0 {
			return nil, fmt.Errorf(" mutant %s needs a file, a function, a line to replace and a test", m.name)
		}
	}
	return list, nil
}
