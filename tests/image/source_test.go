//go:build releasetest && linux

package image

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = "../.."

// checkout returns a copy of this checkout as it would be committed, without .git.
func checkout(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("git cannot list the files of this source: %v: test in a git checkout", err)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(top, name))
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), content, info.Mode().Perm())
	}
	return dir
}

func write(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}

// TestBuildContextLeavesOutUnneededFiles checks which files of a used checkout the builder sees.
func TestBuildContextLeavesOutUnneededFiles(t *testing.T) {
	b := newBuilder(t)
	dir := checkout(t)
	kept := []string{
		"go.mod", "go.sum", "main.go", "LICENSE", "scripts/build", "scripts/lib.sh", "pkg/cli/completion/reap.bash",
		"bin/reap", "bin/ca-certificates.crt",
	}
	left := []string{
		".git/HEAD", ".git/config", ".ci/run", "bin/reap-other", "dist/reap-linux-amd64", "docs/edge.md", "reaptest/go.mod", "examples/operator/go.mod", "tests/house/imports_test.go",
		"pkg/cli/cli_test.go", "cli.test", "pkg/cli/cli.test", "cpu.prof", "README.md", "CHANGELOG.md", "Dockerfile", ".dockerignore",
	}
	for _, name := range slices.Concat(kept, left) {
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) {
			write(t, filepath.Join(dir, name), []byte("planted"), 0o644)
		}
	}
	dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
	write(t, dockerfile, []byte("FROM scratch\nCOPY . /\n"), 0o644)
	b.build(t, "context", dir, "--file", dockerfile)
	root := b.unpack(t, "context")
	for _, name := range kept {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("the builder must see %s (%v)", name, err)
		}
	}
	for _, name := range left {
		if _, err := os.Lstat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("the builder has no use for %s (%v)", name, err)
		}
	}
}

// golang is the image that the Dockerfile builds on.
type golang struct{ image, version string }

var golangLine = regexp.MustCompile(`(?m)^FROM (golang:([0-9.]+)-\w+) AS build$`)

func readGolang(t *testing.T) golang {
	t.Helper()
	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	found := golangLine.FindSubmatch(dockerfile)
	if found == nil {
		t.Fatalf("the Dockerfile has no line like %s", golangLine)
	}
	return golang{string(found[1]), string(found[2])}
}

// The golang image takes no newer Go than its own.
func TestGolangIsTheToolchain(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if g := readGolang(t); !strings.Contains(string(module), "\ntoolchain go"+g.version+"\n") {
		t.Errorf("the Dockerfile builds with Go %s, which is not the toolchain of go.mod", g.version)
	}
}

// standIn makes an image with golang's name and settings out of this machine's own system, which it
// returns as volumes to build with. The caches are this machine's too.
func (b builder) standIn(t *testing.T, g golang) (volumes []string) {
	t.Helper()
	var env map[string]string
	out, err := exec.Command("go", "env", "-json").Output()
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	if err != nil {
		t.Fatalf("asking for Go's settings: %v", err)
	}
	tree := t.TempDir()
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		target, err := os.Readlink("/" + name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Skipf("this system cannot stand in for %s, which has all programs below /usr: %v", g.image, err)
		}
		if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Skipf("%v: install Debian's package ca-certificates", err)
	}
	write(t, filepath.Join(tree, "etc/ssl/certs/ca-certificates.crt"), certificates, 0o644)

	lines := []string{
		"FROM scratch", "COPY . /", "WORKDIR /tmp", "WORKDIR /go",
		"ENV GOPATH=/go GOTOOLCHAIN=local GOCACHE=/cache PATH=/go/bin:" + env["GOROOT"] + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE"} {
		lines = append(lines, fmt.Sprintf("ENV %s=%q", name, env[name]))
	}
	dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
	write(t, dockerfile, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	b.build(t, g.image, tree, "--file", dockerfile)

	// Debian's awk and cc are links through /etc/alternatives.
	volumes = []string{
		"--volume=/usr:/usr:ro", "--volume=/etc/alternatives:/etc/alternatives:ro", "--volume=" + env["GOMODCACHE"] + ":/go/pkg/mod",
		"--volume=" + env["GOCACHE"] + ":/cache",
	}
	if !strings.HasPrefix(env["GOROOT"], "/usr/") {
		volumes = append(volumes, "--volume="+env["GOROOT"]+":"+env["GOROOT"]+":ro")
	}
	return volumes
}
