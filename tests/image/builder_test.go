//go:build releasetest && linux

package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// builder is buildah with images of the test's own.
type builder struct{ storage string }

func newBuilder(t *testing.T) builder {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a root file system its owners and run it: test as root")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skipf("%v: install Debian's package buildah", err)
	}
	// As in a container that is not privileged.
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces | syscall.CLONE_NEWNET}
	if err := probe.Run(); errors.Is(err, syscall.EPERM) {
		t.Skipf("making namespaces: %v: test where root may", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return builder{t.TempDir()}
}

// buildah returns what buildah prints.
func (b builder) buildah(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("buildah", append([]string{
		"--root", filepath.Join(b.storage, "root"), "--runroot", filepath.Join(b.storage, "run"), "--storage-driver", "vfs",
	}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("buildah %s: %v\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// build builds an image. The OCI's format has no healthcheck.
func (b builder) build(t *testing.T, tag, context string, args ...string) {
	t.Helper()
	b.buildah(t, append(append([]string{
		"build", "--tag", tag, "--format", "docker", "--isolation", "chroot", "--pull=never",
	}, args...), context)...)
}

// unpack returns the directory of a root file system made from an image.
func (b builder) unpack(t *testing.T, image string) string {
	t.Helper()
	container := strings.TrimSpace(b.buildah(t, "from", "--pull-never", image))
	t.Cleanup(func() { b.buildah(t, "rm", container) })
	return strings.TrimSpace(b.buildah(t, "mount", container))
}

// config is what an image says about how to run it, as Docker has it.
type config struct {
	User         string
	Env          []string
	Entrypoint   []string
	Cmd          []string
	WorkingDir   string
	Volumes      map[string]struct{}
	ExposedPorts map[string]struct{}
	StopSignal   string
	Healthcheck  struct {
		Test                           []string
		Interval, Timeout, StartPeriod time.Duration
		Retries                        int
	}
}

func (b builder) config(t *testing.T, image string) config {
	t.Helper()
	var found struct{ Docker struct{ Config config } }
	if err := json.Unmarshal([]byte(b.buildah(t, "inspect", "--type", "image", image)), &found); err != nil {
		t.Fatal(err)
	}
	return found.Docker.Config
}
