//go:build releasetest

package install

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestMachine installs, upgrades and removes the real binary on throw-away machines with a real systemd, a
// real OpenRC, and neither. machine.sh says what must hold. Where a machine cannot be made the test is skipped, never
// passed.
func TestMachine(t *testing.T) {
	arch, ok := map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armv7"}[runtime.GOARCH]
	if !ok {
		t.Skipf("no reap for %s", runtime.GOARCH)
	}
	asset := "reap-linux-" + arch
	share := t.TempDir()

	const v1, v2 = "v9.9.1", "v9.9.2"
	built := filepath.Join(t.TempDir(), asset)
	build := exec.Command("../../scripts/build", "--static", "-o", built)
	build.Env = append(os.Environ(), "BUILD_VERSION="+v1)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	binary, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	// Another release without another link of Kubernetes: the same bytes with another version in them.
	upgraded := bytes.ReplaceAll(binary, []byte(v1), []byte(v2))
	if bytes.Equal(binary, upgraded) {
		t.Fatalf("%s is not in the binary", v1)
	}
	release(t, filepath.Join(share, "v1"), asset, binary)
	release(t, filepath.Join(share, "v2"), asset, upgraded)
	bundle := "reap-" + v2
	pack := exec.Command("tar", "-czf", filepath.Join(share, bundle+"-airgap.tar.gz"), "--transform", "s/^v2/"+bundle+"/", "v2")
	pack.Dir = share
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("packing the bundle: %v\n%s", err, out)
	}
	copyFile(t, "machine.sh", filepath.Join(share, "machine.sh"))

	for _, init := range []string{"systemd", "openrc", "none"} {
		t.Run(init, func(t *testing.T) {
			out, err := exec.Command("sh", "boot.sh", init, share).CombinedOutput()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == skipped:
				t.Skipf("%s", out)
			case err != nil:
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// release writes what an unpacked bundle holds.
func release(t *testing.T, dir, asset string, binary []byte) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, asset), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	sums := fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(binary), asset)
	if err := os.WriteFile(filepath.Join(dir, "sha256sums.txt"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "../../install.sh", filepath.Join(dir, "install.sh"))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o755); err != nil {
		t.Fatal(err)
	}
}
