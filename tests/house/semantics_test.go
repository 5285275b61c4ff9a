package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// holderWords are what a "held by" cell is made of: names in backticks and names of tests.
	holderWords = regexp.MustCompile("`([^`]+)`" + `|\b((?:Test|Fuzz)[A-Z]\w*)`)
	testDefined = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// heldBy returns the last cells of the tables in docs/semantics.md whose last column is "held by", each
// with its row.
func heldBy(t *testing.T) (rows, cells []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "semantics.md"))
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			in = false
			continue
		}
		columns := strings.Split(strings.Trim(line, "|"), " | ")
		cell := strings.TrimSpace(columns[len(columns)-1])
		switch {
		case cell == "held by":
			in = true
		case in && !strings.HasPrefix(line, "|---"):
			rows, cells = append(rows, strings.TrimSpace(columns[0])), append(cells, cell)
		}
	}
	if len(rows) < 30 {
		t.Fatalf("only %d rules were found", len(rows))
	}
	return rows, cells
}

// testsIn returns the tests that are defined in a directory.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testDefined.FindAllStringSubmatch(string(raw), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// scenarios returns the names of all scenarios.
func scenarios(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "scenarios", "testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}

// TestEveryRuleNamesTestsThatExist, and every scenario is one that a rule names: what no rule mentions,
// nobody would look for. In the names of scenarios "…" stands for anything; "same" is what the row above
// is held by.
func TestEveryRuleNamesTestsThatExist(t *testing.T) {
	all, defined := scenarios(t), map[string][]string{}
	named := map[string]bool{}
	rows, cells := heldBy(t)
	for i, cell := range cells {
		dir, held := "", strings.HasPrefix(cell, "same") && i > 0
		for _, m := range holderWords.FindAllStringSubmatch(cell, -1) {
			quoted, test := m[1], m[2]
			switch {
			case strings.HasPrefix(quoted, "pkg/") || strings.HasPrefix(quoted, "tests/"):
				dir = quoted
				if defined[dir] == nil {
					defined[dir] = testsIn(t, dir)
				}
			case quoted != "":
				pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(quoted), "…", ".*") + "$")
				found := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !pattern.MatchString(name) })
				if len(found) == 0 {
					t.Errorf("%s: there is no scenario %s", rows[i], quoted)
				}
				for _, name := range found {
					named[name] = true
				}
				held = true
			case !slices.Contains(defined[dir], test):
				t.Errorf("%s: there is no %s in %q", rows[i], test, dir)
			default:
				held = true
			}
		}
		if !held {
			t.Errorf("%s: no test holds it", rows[i])
		}
	}
	for _, name := range all {
		if !named[name] {
			t.Errorf("no rule in docs/semantics.md names the scenario %s", name)
		}
	}
}
