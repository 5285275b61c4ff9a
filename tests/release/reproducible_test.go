//go:build releasetest

package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSameSourceSameBytes builds the release again, from a copy in another directory without .git, with another
// time zone, language, file modes and compiler settings. Go's cache spares compiling: what it cannot vouch for is linked and packed anew.
// TestSameBytesFromNothing does without.
func TestSameSourceSameBytes(t *testing.T) {
	again := filepath.Join(t.TempDir(), "another place", "release")
	if err := build(copySources(t), again, elsewhere(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, again), files(t, dist); !slices.Equal(got, want) {
		t.Fatalf("the second has %q, the first %q", got, want)
	}
	for _, name := range files(t, dist) {
		same(t, filepath.Join(again, name), filepath.Join(dist, name))
	}
}

// TestSameBytesFromNothing compiles everything again for one architecture: that of the machine, for which Go and
// the C compiler do what they do for the others.
func TestSameBytesFromNothing(t *testing.T) {
	a := native(t)
	again := filepath.Join(t.TempDir(), "release")
	env := append(elsewhere(t), "GOCACHE="+t.TempDir())
	if err := build(copySources(t), again, env, a.name); err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join(again, filepath.Base(a.binary())), a.binary())
}

// elsewhere is an environment in which the same release has to come out.
func elsewhere(t *testing.T) []string {
	t.Helper()
	what := output(t, native(t).binary(), "--version")
	found := regexp.MustCompile(`(\S+) \(commit (\S+), built (\S+)\)\n$`).FindStringSubmatch(what)
	if found == nil {
		t.Fatalf("the version is %q", what)
	}
	return []string{
		"BUILD_VERSION=" + found[1], "BUILD_COMMIT=" + found[2], "BUILD_DATE=" + found[3],
		"TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "HOSTNAME=elsewhere", "USER=somebody", "CGO_CFLAGS=-O0 -g", "GOAMD64=v3", "GOARM=5",
	}
}

// copySources copies what is, or is about to be, in the repository.
func copySources(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "a copy")
	list := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("listing the sources: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		from := filepath.Join(root, name)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), content, info.Mode().Perm()&0o700); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestBytesHoldNoPath: nothing of the machine that built it is in a binary.
func TestBytesHoldNoPath(t *testing.T) {
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range architectures {
		content, err := os.ReadFile(a.binary())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{here + "/", filepath.Join(home, "go") + "/", "/go-build"} {
			if i := bytes.Index(content, []byte(path)); i >= 0 {
				t.Errorf("%s holds %q", a.binary(), content[i:min(i+80, len(content))])
			}
		}
	}
}
