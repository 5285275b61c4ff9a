//go:build releasetest

// Package scan looks for what no test has asked for: it searches with every fuzz target, and asks for known vulnerabilities.
package scan

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/size"
)

// root is the top of the checkout.
const root = "../.."

// fuzzFor is the variable that says how long each fuzz target searches, if not for half a minute.
const fuzzFor = "REAP_TEST_FUZZ"

var target = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// TestFuzz has every fuzz target of the repository search for a while. Without it they run on what testdata and the targets
// themselves hold. What fails is left in the package's testdata/fuzz, and is run by every test from then on.
func TestFuzz(t *testing.T) {
	targets, each := 0, 30*time.Second
	if asked := os.Getenv(fuzzFor); asked != "" {
		var err error
		if each, err = time.ParseDuration(asked); err != nil || each <= 0 {
			t.Fatalf("%s is %q; give a duration such as 10m", fuzzFor, asked)
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "dist") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range target.FindAllSubmatch(raw, -1) {
			targets++
			name := string(m[1])
			t.Run(dir+"/"+name, func(t *testing.T) {
				out, err := search(dir, name, each)
				if err != nil && endedLate(out) {
					out, err = search(dir, name, each)
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if last := strings.Split(strings.TrimSpace(string(out)), "\n"); len(last) > 2 {
					t.Log(last[len(last)-3]) // how many inputs there were
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if targets == 0 {
		t.Error("there is no fuzz target")
	}
	size.Power(t, fmt.Sprintf("targets=%d each=%s", targets, each))
}

// search runs the fuzz target of this name in dir, and returns what go test says.
func search(dir, name string, each time.Duration) ([]byte, error) {
	// Making inputs smaller that are only of interest would take most of the time.
	cmd := exec.Command("go", "test", "-vet=off", "-trimpath", "-buildvcs=false", "-tags", "kustomize_disable_go_plugin_support",
		"-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "10x", "./"+dir)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", cmd, err)
	}
	return out, err
}

// endedLate reports that the search failed only since Go 1.26 sometimes takes the end of its time for a failure
// (https://go.dev/issue/75804). An input that fails is written to a file, which go test names.
func endedLate(out []byte) bool {
	return bytes.Contains(out, []byte("context deadline exceeded")) && !bytes.Contains(out, []byte("Failing input")) &&
		!bytes.Contains(out, []byte("panic"))
}
