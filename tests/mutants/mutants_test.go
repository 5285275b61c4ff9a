package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const code = `package p

type t struct{ n int }

func (x *t) add(_ int, all ...int) (sum int, err error) {
	sum = x.n
	for _, a := range all {
		sum += a
	}
	return sum, nil
}

func twice(n int) {
	n++
	n++
}
`

// one returns the only mutant of a list about the code above.
func one(t *testing.T, list string) *mutant {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := parse("file " + file + "\ntest ./x TestOne|TestTwo\n\n" + list)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d mutants, %v", len(all), err)
	}
	return all[0]
}

// A function with a mutant asks for it, and is otherwise what it was.
func TestMutantSleepsInACopy(t *testing.T) {
	m := one(t, "mutant wrong in t.add\n- sum += a\n+ sum -= a\n")
	if err := m.apply(); err != nil {
		t.Fatal(err)
	}
	source, pkg, err := withMutants(m.file, []*mutant{m})
	if err != nil || pkg != "p" {
		t.Fatal(pkg, err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"\tsum += a\n", "func (x *t) add_mutant0(_ int, all ...int) (sum int, err error) {", "\nsum -= a\n",
		`if chosenMutant == "wrong" { return x.add_mutant0(mutantArgument0, all...) };`, "add(mutantArgument0 int, all ...int)",
	} {
		if !strings.Contains(string(source), want) {
			t.Errorf("%q is not in\n%s", want, source)
		}
	}
}

// An entry that fits no more, or fits twice, is an error and no mutant.
func TestMutantHasToFitOnce(t *testing.T) {
	for list, want := range map[string]string{
		"mutant m in t.add\n- sum -= a\n+ sum += a\n":           "does not have its line any more",
		"mutant m in twice\n- n++\n+ n--\n":                     "more than once",
		"mutant m in gone\n- n++\n+ n--\n":                      "has no function gone",
		"mutant m in t.add\n- return sum, nil\n+ return 0, nil": "",
	} {
		err := one(t, list).apply()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", list, err)
		}
	}
	for _, list := range []string{"mutant m in f\n+ x\n", "mutant m\n- x\n", "- x\n", "wrong\n"} {
		if _, err := parse("file f.go\ntest ./x\n\n" + list); err == nil {
			t.Errorf("%q is understood", list)
		}
	}
}

// The output of a test run tells what killed a mutant: a failed test, a hang or a panic, but never a failed build or a
// test that did not run.
func TestKillersAreNamed(t *testing.T) {
	one := tests{pkg: "./pkg/x", run: "TestOne"}
	for out, want := range map[string]string{
		"=== RUN TestOne\n--- FAIL: TestOne (0.00s)\nFAIL\n":                   "pkg/x TestOne",
		"panic: test timed out after 1s\n--- FAIL: TestOne (1.00s)\n":          "pkg/x hung",
		"panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n": "pkg/x panic: runtime error: index out of range",
		"=== RUN TestOne\n":             "",
		"flag provided but not defined": "",
	} {
		if got := whatFailed([]byte(out), one); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	// That no test has failed is no kill, however the run ends.
	killed := filepath.Join(t.TempDir(), "killed.test")
	if err := os.WriteFile(killed, []byte("#!/bin/sh\nkill -KILL $$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := &runner{binaries: map[string]string{".": killed}}
	if got, err := r.test(t.Context(), "", tests{pkg: "."}, time.Minute); err == nil || got != "" {
		t.Errorf("a run that the kernel has ended: %q, %v", got, err)
	}
	if got := strings.Join((tests{run: "TestA/b|TestC"}).flags(), " "); got != "-test.run=^TestA$/^b$|^TestC$" {
		t.Errorf("flags are %s", got)
	}
	if got := strings.Join((tests{run: "!TestA"}).flags(), " "); got != "-test.skip=^TestA$" {
		t.Errorf("flags are %s", got)
	}
}
