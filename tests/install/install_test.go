// Package install tests install.sh, and `reap service` through it, by running them in throw-away prefixes.
package install

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/size"
)

// skipped is the exit code of a case that cannot be run on this machine.
const skipped = 77

// binary is the program that sets services up; scripts/test builds it.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("REAP_BINARY")
	if path == "" {
		t.Fatal("$REAP_BINARY names no binary: run this with ./scripts/test tests/install")
	}
	return path
}

// casesWithBusybox are the cases that the gate runs with busybox too, one of each kind: a fresh install, from a bundle, without a network, with
// a bad checksum, beside an older install.sh, without an init system, an upgrade, a removal. --release runs all with it.
var casesWithBusybox = []string{"install", "bundle", "air_gap", "corrupt_download", "installed_before_openrc", "no_init", "upgrade", "uninstall"}

// TestInstall runs the cases of run.sh, once with the machine's own tools and once with busybox
// alone, which is what many devices have.
func TestInstall(t *testing.T) {
	binary(t)
	list, err := exec.Command("sh", "run.sh", "--list").Output()
	if err != nil {
		t.Fatalf("listing the cases: %v", err)
	}
	cases := strings.Fields(string(list))
	if len(cases) == 0 {
		t.Fatal("run.sh lists no case")
	}
	for _, name := range casesWithBusybox {
		if !slices.Contains(cases, name) {
			t.Errorf("run.sh has no case %s", name)
		}
	}
	for _, tools := range []string{"system", "busybox"} {
		t.Run(tools, func(t *testing.T) {
			for _, name := range cases {
				if tools == "busybox" && size.Of(true, true, false) && !slices.Contains(casesWithBusybox, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					cmd := exec.Command("sh", "run.sh", name)
					cmd.Env = append(os.Environ(), "TOOLS="+tools)
					out, err := cmd.CombinedOutput()
					var exit *exec.ExitError
					switch {
					case errors.As(err, &exit) && exit.ExitCode() == skipped:
						t.Skipf("%s", out)
					case err != nil:
						t.Fatalf("%v\n%s", err, out)
					}
				})
			}
		})
	}
}

// TestDownload installs from a web server laid out like the release page, by each program that can
// download.
func TestDownload(t *testing.T) {
	arch, ok := map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armv7"}[runtime.GOARCH]
	if !ok {
		t.Skipf("no reap for %s", runtime.GOARCH)
	}
	asset := "reap-linux-" + arch
	program, err := filepath.Abs(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	binary := fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" != service ] || exec %s \"$@\"\necho reap version v1\n", program)
	sums := fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(binary), asset)

	site := http.NewServeMux()
	site.HandleFunc("/releases/download/v3/"+asset, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(binary[1:]) })
	site.HandleFunc("/releases/download/v3/sha256sums.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sums) })
	for _, version := range []string{"download/v1", "latest/download"} {
		site.HandleFunc("/releases/"+version+"/"+asset, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(binary) })
		site.HandleFunc("/releases/"+version+"/sha256sums.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sums) })
	}
	server := httptest.NewServer(site)
	defer server.Close()

	for _, client := range []string{"curl", "wget", "busybox"} {
		t.Run(client, func(t *testing.T) {
			found, err := exec.LookPath(client)
			if err != nil {
				t.Skip(err)
			}
			path := t.TempDir()
			name := client
			if client == "busybox" {
				name = "wget"
			}
			if err := os.Symlink(found, filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
			for _, tool := range strings.Fields("awk cat chmod cp dirname head id mkdir mktemp mv rm rmdir sed sha256sum tr uname") {
				target, err := exec.LookPath(tool)
				if err != nil {
					t.Skip(err)
				}
				if err := os.Symlink(target, filepath.Join(path, tool)); err != nil {
					t.Fatal(err)
				}
			}
			sh, err := exec.LookPath("sh")
			if err != nil {
				t.Fatal(err)
			}

			for _, test := range []struct{ version, wantError string }{
				{version: "v1"},
				{version: "latest"},
				{version: "v2", wantError: "cannot fetch " + server.URL + "/releases/download/v2/sha256sums.txt"},
				{version: "v3", wantError: "SHA-256"},
			} {
				t.Run(test.version, func(t *testing.T) {
					root := t.TempDir()
					cmd := exec.Command(sh, "../../install.sh")
					cmd.Env = []string{
						"PATH=" + path,
						"INSTALL_REAP_BASE_URL=" + server.URL + "/releases/download",
						"INSTALL_REAP_VERSION=" + test.version,
						// A prefix without an init system: only the binary, root or not.
						"INSTALL_REAP_ROOT=" + root,
						"INSTALL_REAP_BIN_DIR=/bin",
					}
					out, err := cmd.CombinedOutput()
					got, readErr := os.ReadFile(filepath.Join(root, "bin", "reap"))
					if test.wantError != "" {
						if err == nil || !strings.Contains(string(out), test.wantError) {
							t.Fatalf("got %v, want an error with %q; output:\n%s", err, test.wantError, out)
						}
						if readErr == nil {
							t.Fatal("installed in spite of it")
						}
						return
					}
					if err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					if readErr != nil || !bytes.Equal(got, binary) {
						t.Fatalf("the installed binary is not the one served: %v", readErr)
					}
				})
			}
		})
	}
}
