package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// found is the line above suppressions that says which version of which module they are about.
var found = regexp.MustCompile(`^# (\S+\.\S+/\S+) (v\d\S*)$`)

// A race that is passed over in one version of a module may be mended, or another one, in the next.
func TestSuppressedRacesAreThoseOfTheVersionsInUse(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "race.suppressions"))
	if err != nil {
		t.Fatal(err)
	}
	program := map[string]string{}
	for _, r := range readModule(t, ".").Require {
		program[r.Path] = r.Version
	}
	module, suppressed := "", 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if m := found.FindStringSubmatch(line); m != nil {
			module = m[1]
			if program[module] != m[2] {
				t.Errorf("the races of %s were seen in %s, and go.mod has %q: see whether they are still there", module, m[2], program[module])
			}
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		suppressed++
		if module == "" {
			t.Errorf("%q stands below no module with its version", line)
		}
	}
	if suppressed == 0 {
		t.Error("no suppression was found")
	}
}

var quotedTest = regexp.MustCompile(`"(Test\w+)"`)

// The selection that runs with the race detector has only tests that are there.
func TestTestsUnderTheRaceDetectorExist(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "integration", "race_on_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	defined := testsIn(t, "tests/integration")
	selected := quotedTest.FindAllStringSubmatch(string(raw), -1)
	for _, m := range selected {
		if !slices.Contains(defined, m[1]) {
			t.Errorf("tests/integration has no %s", m[1])
		}
	}
	if len(selected) < 5 {
		t.Errorf("only %d tests are selected", len(selected))
	}
}

// Tests that may be skipped are there, too: else the list would allow another test what one was allowed.
func TestSkipsAreOfTestsThatExist(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "skips"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 3 {
			t.Errorf("%q: needs a package, a test and a reason", line)
			continue
		}
		test, _, _ := strings.Cut(fields[1], "/")
		if !slices.Contains(testsIn(t, fields[0]), test) {
			t.Errorf("%s has no %s", fields[0], test)
		}
	}
}
