package house

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, dir := range []string{"reaptest", "examples/operator", "tests/envtest", "tests/clients"} {
		for _, r := range readModule(t, dir).Require {
			if v, shared := program[r.Path]; shared && v != r.Version {
				t.Errorf("%s/go.mod requires %s %s, go.mod %s: go get it in %s", dir, r.Path, r.Version, v, dir)
			}
		}
	}
}
