//go:build releasetest

// Package release tests what scripts/release makes, as a user gets it: the bytes, the checksums, the bill of
// materials, and the binaries, those for other machines under emulation.
//
// The release is built first, which takes half an hour if nothing is compiled yet. REAP_RELEASE names a directory
// that scripts/release has made, to test that one instead.
package release

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the checkout.
const root = "../.."

// dist is the release under test.
var dist string

// architectures are those of a release, with what Go calls them and the emulator of each.
var architectures = []architecture{
	{"amd64", "amd64", "qemu-x86_64-static"},
	{"arm64", "arm64", "qemu-aarch64-static"},
	{"armv7", "arm", "qemu-arm-static"},
}

type architecture struct{ name, goarch, emulator string }

func (a architecture) binary() string { return filepath.Join(dist, "reap-linux-"+a.name) }

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	top, err := os.MkdirTemp("", "reap-release-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(top)) }()
	if dist = os.Getenv("REAP_RELEASE"); dist == "" {
		dist = filepath.Join(top, "release")
		if err := build(root, dist, nil); err != nil {
			return 1, err
		}
	}
	if dist, err = filepath.Abs(dist); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// build makes a release of the sources in a directory.
func build(sources, to string, env []string, architectures ...string) error {
	cmd := exec.Command(filepath.Join(sources, "scripts", "release"), append([]string{"-o", to}, architectures...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/release: %w\n%s", err, out)
	}
	return nil
}

// output runs a program and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// files returns the names in a directory, sorted.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// version is what the release says it is.
func version(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, "reap-*-airgap.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d bundles, %v", len(found), err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "reap-"), "-airgap.tar.gz")
}
