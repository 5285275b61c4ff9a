package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// options are the arguments of scripts/test.
type options struct {
	short, release, strict bool
	race                   bool     // for every chosen package
	flags                  []string // of go test
	chosen                 []string // packages; none for all
	tests                  []string // names of them
}

func (o options) tier() string {
	if o.release {
		return release
	}
	return gate
}

// size is what REAP_TEST_SIZE asks for.
func (o options) size() string {
	switch {
	case o.short:
		return "short"
	case o.release:
		return "long"
	default:
		return gate
	}
}

// takesValue are flags of go test whose value is the next argument.
var takesValue = []string{"-run", "-skip", "-count", "-timeout", "-parallel", "-cpu", "-bench", "-fuzz", "-fuzztime", "-shuffle"}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)

// parse reads the arguments. packages are all directories with tests, and find returns those of a test.
func parse(args, packages []string, find func(test string) ([]string, error)) (o options, err error) {
	for len(args) > 0 {
		switch args[0] {
		case "--short":
			o.short = true
		case "--release":
			o.release = true
		case "--strict":
			o.strict = true
		default:
			return o, o.choose(args, packages, find)
		}
		args = args[1:]
	}
	return o, nil
}

func (o *options) choose(args, packages []string, find func(test string) ([]string, error)) error {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case slices.Contains(takesValue, arg):
			if i++; i == len(args) {
				return fmt.Errorf("%s needs a value", arg)
			}
			o.flags = append(o.flags, arg, args[i])
		case arg == "-race":
			o.race = true
		case strings.HasPrefix(arg, "-"):
			o.flags = append(o.flags, arg)
		case arg == "./...":
		case isTest.MatchString(arg):
			dirs, err := find(arg)
			if err != nil {
				return err
			}
			if len(dirs) == 0 {
				return fmt.Errorf("there is no test %s", arg)
			}
			o.chosen, o.tests = append(o.chosen, dirs...), append(o.tests, arg)
		default:
			dirs := matching(filepath.Clean(arg), packages)
			if len(dirs) == 0 {
				return fmt.Errorf("%s is no package with tests, and no test", arg)
			}
			o.chosen = append(o.chosen, dirs...)
		}
	}
	slices.Sort(o.chosen)
	o.chosen = slices.Compact(o.chosen)
	if len(o.tests) > 0 {
		o.flags = append(o.flags, "-run", "^("+strings.Join(o.tests, "|")+")$")
	}
	return nil
}

// matching returns the packages that an argument names, or that are below it.
func matching(arg string, packages []string) (dirs []string) {
	dir, ok := strings.CutSuffix(arg, "/...")
	for _, p := range packages {
		if p == arg || ok && below(dir+"/")(p) {
			dirs = append(dirs, p)
		}
	}
	return dirs
}

// rowsOf returns a row for the chosen packages of each row: what a row says of its tests' names, size and part is for complete runs.
func (o options) rowsOf(rows []row) (chosen []row) {
	var seen []string
	for _, r := range rows {
		mine := r
		mine.Packages, mine.Run, mine.Skip, mine.Short, mine.Size, mine.Part, mine.Engine, mine.Cached, mine.After, mine.Smoke = nil, "", "", false, "", "", "", false, "", ""
		if r.Engine != "" {
			continue
		}
		mine.Race = r.Race || o.race
		found := false
		for _, p := range o.chosen {
			if (slices.Contains(r.Packages, p) || r.Module == p) && !slices.Contains(seen, p) {
				seen, found = append(seen, p), true
				if r.Module == "" {
					mine.Packages = append(mine.Packages, p)
				}
			}
		}
		if found {
			chosen = append(chosen, mine)
		}
	}
	return chosen
}

// holding returns the directories whose tests have one of a name.
func holding(root string, packages []string) func(test string) ([]string, error) {
	return func(test string) (dirs []string, err error) {
		function := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(test) + `\(`)
		for _, dir := range packages {
			files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
			if err != nil {
				return nil, err
			}
			if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil && dir != "." { // a module has packages below
				below, err := filepath.Glob(filepath.Join(root, dir, "*", "*_test.go"))
				if err != nil {
					return nil, err
				}
				files = append(files, below...)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return nil, err
				}
				if function.Match(text) {
					dirs = append(dirs, dir)
					break
				}
			}
		}
		return dirs, nil
	}
}
