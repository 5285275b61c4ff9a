package house

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirements are what a go.mod says.
type requirements struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readModule(t *testing.T, dir string) requirements {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join("..", "..", dir)
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("reading %s/go.mod: %v", cmd.Dir, err)
	}
	var m requirements
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Require) == 0 {
		t.Fatalf("%s/go.mod requires nothing", cmd.Dir)
	}
	return m
}

// Pages that describe Kubernetes as one version has it name the version that reap is built from.
func TestPagesNameTheVersionOfKubernetes(t *testing.T) {
	var version string
	for _, r := range readModule(t, ".").Require {
		if r.Path == "k8s.io/kubernetes" {
			version = r.Version
		}
	}
	for _, page := range []string{"docs/semantics.md", "docs/controllers.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		if version == "" || !strings.Contains(string(text), "Kubernetes "+version) {
			t.Errorf("%s does not name Kubernetes %s", page, version)
		}
	}
}

// Anybody's tests can import reaptest, and get client-go with it but no Kubernetes.
func TestReaptestCanBeImported(t *testing.T) {
	reaptest := readModule(t, "reaptest")
	for _, r := range reaptest.Replace {
		t.Errorf("reaptest/go.mod replaces %s: that does not reach who imports it", r.Old.Path)
	}
	never := []string{"github.com/reap-dev/reap", "k8s.io/apiserver", "k8s.io/kubernetes"}
	for _, r := range reaptest.Require {
		if slices.Contains(never, r.Path) {
			t.Errorf("reaptest/go.mod requires %s", r.Path)
		}
	}
}

// testedModules are the modules beside the program's that have tests, as scripts/lint lists them; scripts/tools looks after tests/suites.yaml.
var testedModules = []string{"reaptest", "examples/operator", "tests/clients", "tests/envtest"}

// No module is forgotten: what has a go.mod is tested and linted.
func TestScriptsKnowEveryModule(t *testing.T) {
	// The program itself and scripts/tools have a place of their own in the list; scripts/datastores only names what others wrote.
	others := []string{".", "scripts/tools", "scripts/datastores"}
	files, err := exec.Command("git", "-C", filepath.Join("..", ".."), "ls-files", "-co", "--exclude-standard", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for file := range strings.FieldsSeq(string(files)) {
		if dir := filepath.Dir(file); !slices.Contains(others, dir) {
			found = append(found, dir)
		}
	}
	for what, list := range map[string][]string{
		"tests/house":  testedModules,
		"scripts/lint": listedIn(t, "scripts/lint", `(?m)^for module in \. (.*) scripts/tools; do$`),
	} {
		if list = slices.Sorted(slices.Values(list)); !slices.Equal(list, slices.Sorted(slices.Values(found))) {
			t.Errorf("%s has the modules %q, and there are %q", what, list, found)
		}
	}
}

// listedIn returns the words of a list in a script.
func listedIn(t *testing.T, script, pattern string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", script))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(raw)
	if m == nil {
		t.Fatalf("%s has no list %s", script, pattern)
	}
	return strings.Fields(string(m[1]))
}

// What several modules require is compiled, vetted and checked once only if it is the same.
func TestModulesShareTheProgramsVersions(t *testing.T) {
	program := map[string]string{}
	root := readModule(t, ".")
	for _, r := range root.Require {
		program[r.Path] = r.Version
	}
	for _, r := range root.Replace {
		program[r.Old.Path] = r.New.Version
	}
	for _, dir := range testedModules {
		for _, r := range readModule(t, dir).Require {
			if v, shared := program[r.Path]; shared && v != r.Version {
				t.Errorf("%s/go.mod requires %s %s, go.mod %s: go get it in %s", dir, r.Path, r.Version, v, dir)
			}
		}
	}
}

var badInLogs = regexp.MustCompile(`(?m)^var bad = regexp\.MustCompile\((.*)\)$`)

// The tests of other modules look for the same in a server's log as those that can import tests/program.
func TestModulesLookForTheSameInLogs(t *testing.T) {
	var want string
	for _, file := range []string{"program/log.go", "clients/log_test.go", "envtest/log_test.go"} {
		raw, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		m := badInLogs.FindStringSubmatch(string(raw))
		if m == nil {
			t.Fatalf("tests/%s does not say what is bad in a log", file)
		}
		if want = cmp.Or(want, m[1]); m[1] != want {
			t.Errorf("tests/%s looks for %s, tests/program for %s", file, m[1], want)
		}
	}
}
