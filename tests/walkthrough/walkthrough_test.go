// Package walkthrough runs the commands of README.md and docs/tour.md as they are written there, with the built binary,
// and compares what they print with what the pages show. Only what differs by its nature may differ: times, ages, UIDs,
// names that Kubernetes makes up, the port.
package walkthrough

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	readme = filepath.Join("..", "..", "README.md")
	tour   = filepath.Join("..", "..", "docs", "tour.md")
)

// binary is the program that users have; scripts/test builds it.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("REAP_BINARY")
	if path == "" {
		t.Fatal("$REAP_BINARY names no binary: run this with ./scripts/test tests/walkthrough")
	}
	return path
}

// readOnly are commands that may be run again until the cluster has come to what the page shows.
var readOnly = regexp.MustCompile(`^reap (tree|why|status|lint|plan|kubectl get) `)

// fails are the exit codes of the commands that the pages show to fail. All others succeed.
var fails = map[string]string{
	"reap delete deployments/web -n shop": "2", // without --yes
	"reap lint -f backup.yaml":            "1", // it finds something
}

// walk runs the steps and compares what they print, and how they end.
func walk(t *testing.T, s *shell, all []step, replace *strings.Replacer) {
	t.Helper()
	for _, step := range all {
		command := replace.Replace(step.command)
		want := normal(step.command, step.output)
		output, code := s.run(t, command)
		got := normal(step.command, output)
		again := readOnly.MatchString(step.command + " ")
		for deadline := time.Now().Add(patience); again && got != want && time.Now().Before(deadline); {
			<-time.After(50 * time.Millisecond)
			output, code = s.run(t, command)
			got = normal(step.command, output)
		}
		if step.output != "" && got != want {
			t.Fatalf("%s:%d: %s\nprints\n%s\n\nand the page shows\n%s", step.page, step.line, step.command, got, want)
		}
		if want := cmp.Or(fails[strings.TrimSpace(step.command)], "0"); code != want {
			t.Errorf("%s:%d: %s\nends with %s, want %s; it prints\n%s", step.page, step.line, step.command, code, want, output)
		}
	}
}

// TestTour takes the tour in a directory that has what a clone has.
func TestTour(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write(t, "scripts/build", fmt.Sprintf("#!/bin/sh\nmkdir -p bin && ln -s %s bin/reap\n", binary(t)))
	walk(t, s, steps(t, tour), strings.NewReplacer("/tmp/tour", s.dir+"/tour"))
}

// TestReadme installs a release that holds the built binary, and goes on as the README does.
func TestReadme(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	release := filepath.Join(s.dir, "release")
	script, err := os.ReadFile(filepath.Join("..", "..", "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "release/install.sh", string(script))
	asset := "reap-linux-" + map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armv7"}[runtime.GOARCH]
	s.must(t, fmt.Sprintf("cd release && ln -s %s %s && sha256sum %s > sha256sums.txt && cd ..", binary(t), asset, asset))
	// A prefix without an init system: only the binary, root or not.
	s.must(t, "export INSTALL_REAP_BASE_URL="+release+" INSTALL_REAP_ROOT=$PWD INSTALL_REAP_BIN_DIR=/path REAP_DATA_DIR=$PWD/data")
	walk(t, s, steps(t, readme), strings.NewReplacer("https://github.com/reap-dev/reap/releases/latest/download", "file://"+release))
}
