// Package goldenfile holds files that are made from the code against what the code makes now. With -update the tests
// write them instead:
//
//	./scripts/test -update TestReference
package goldenfile

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// Update is the flag -update of the test binary.
var Update = flag.Bool("update", false, "write the golden files anew")

// File holds a whole file.
func File(t *testing.T, path, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	hold(t, path, string(raw), want)
}

// Section holds the part of a file between two lines, which tell the reader where the part comes from:
//
//	<!-- NAME is made from the code -->
//	<!-- end of NAME -->
func Section(t *testing.T, path, name, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, began := strings.Cut(string(raw), "<!-- "+name+" is made from the code -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end of "+name+" -->\n")
	if !began || !ended {
		t.Fatalf("%s has no section %s", path, name)
	}
	begin, end := "<!-- "+name+" is made from the code -->\n", "<!-- end of "+name+" -->\n"
	hold(t, path, string(raw), before+begin+want+end+after)
}

// hold compares a file's content with what it has to be, and writes that with -update.
func hold(t *testing.T, path, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	if *Update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	gotLine, wantLine := firstDifference(got, want)
	t.Errorf("%s is not what the code makes; './scripts/test -update %s' writes it anew\n  it has   %q\n  wanted   %q", path, name, gotLine, wantLine)
}

// firstDifference returns the first lines in which two texts differ.
func firstDifference(got, want string) (string, string) {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return g[i], w[i]
		}
	}
	common := min(len(g), len(w))
	return strings.Join(g[common:], "\n"), strings.Join(w[common:], "\n")
}
