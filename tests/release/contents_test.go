//go:build releasetest

package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestReleaseIsComplete(t *testing.T) {
	want := []string{
		"install.sh", "kubectl-reap-linux-amd64.tar.gz", "kubectl-reap-linux-arm64.tar.gz", "kubectl-reap-linux-armv7.tar.gz",
		"kubectl-reap.yaml", "reap-" + version(t) + "-airgap.tar.gz", "reap-linux-amd64", "reap-linux-arm64", "reap-linux-armv7",
		"reap-man.tar.gz", "reap-reports.yaml", "sbom.cdx.json", "sha256sums.txt",
	}
	if got := files(t, dist); !slices.Equal(got, want) {
		t.Errorf("the release has %q, not %q", got, want)
	}
}

// checkSums holds a directory against its sha256sums.txt, which must name every other file once.
func checkSums(t *testing.T, dir string) {
	t.Helper()
	const list = "sha256sums.txt"
	raw, err := os.ReadFile(filepath.Join(dir, list))
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{list}
	for line := range strings.Lines(string(raw)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			t.Fatalf("%s has the line %q", list, line)
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			t.Errorf("%s is listed with %s and has %s", name, sum, got)
		}
		listed = append(listed, name)
	}
	slices.Sort(listed)
	if got := files(t, dir); !slices.Equal(got, listed) {
		t.Errorf("%s lists %q of %q", list, listed, got)
	}
}

func TestChecksums(t *testing.T) { checkSums(t, dist) }

// TestBundle unpacks the air-gap bundle and installs from it.
func TestBundle(t *testing.T) {
	top := t.TempDir()
	name := "reap-" + version(t)
	output(t, "tar", "-C", top, "-xzf", filepath.Join(dist, name+"-airgap.tar.gz"))
	if got := files(t, top); !slices.Equal(got, []string{name}) {
		t.Fatalf("the bundle unpacks to %q", got)
	}
	dir := filepath.Join(top, name)
	checkSums(t, dir)
	for _, file := range files(t, dir) {
		if file == "sha256sums.txt" {
			continue // of another set of files
		}
		same(t, filepath.Join(dir, file), filepath.Join(dist, file))
	}

	target := t.TempDir()
	cmd := exec.Command("sh", filepath.Join(dir, "install.sh"))
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + target, "INSTALL_REAP_BASE_URL=" + dir, "INSTALL_REAP_ROOT=" + target,
		"INSTALL_REAP_SKIP_ENABLE=true", "INSTALL_REAP_BIN_DIR=/usr/local/bin",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("installing from the bundle: %v\n%s", err, out)
	}
	same(t, filepath.Join(target, "usr/local/bin/reap"), native(t).binary())
}

// TestManPages: there is one for each command, of this version.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	output(t, "tar", "-C", dir, "-xzf", filepath.Join(dist, "reap-man.tar.gz"))
	pages := files(t, filepath.Join(dir, "man1"))
	for _, name := range []string{"reap.1", "reap-server.1", "reap-plan-delete.1"} {
		if !slices.Contains(pages, name) {
			t.Errorf("there is no %s among %q", name, pages)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "man1", "reap-server.1"))
	if err != nil || !bytes.Contains(page, []byte("reap "+version(t))) {
		t.Errorf("reap-server.1 does not name the version (%v):\n%.300s", err, page)
	}
}

// TestPlugin holds the plugin's manifest against its archives, and runs the one of this machine under
// the name that kubectl looks for.
func TestPlugin(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(dist, "kubectl-reap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				}
				URI    string
				SHA256 string
				Bin    string
				Files  []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "reap" || manifest.Spec.Version != version(t) || len(manifest.Spec.Platforms) != len(architectures) {
		t.Errorf("the manifest: %+v", manifest)
	}
	for i, p := range manifest.Spec.Platforms {
		a := architectures[i]
		archive := filepath.Join(dist, filepath.Base(p.URI))
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != p.SHA256 || p.Selector.MatchLabels["os"] != "linux" || p.Selector.MatchLabels["arch"] != a.goarch || p.Bin != "kubectl-reap" || len(p.Files) != 2 {
			t.Errorf("%s has %s: %+v", archive, got, p)
		}
		top := t.TempDir()
		output(t, "tar", "-C", top, "-xzf", archive)
		same(t, filepath.Join(top, p.Bin), a.binary())
		if a.binary() == native(t).binary() {
			if out := output(t, filepath.Join(top, p.Bin), "lint", "--help"); !strings.Contains(out, "--fail-on") {
				t.Errorf("kubectl reap lint --help: %s", out)
			}
		}
	}
}

func same(t *testing.T, one, other string) {
	t.Helper()
	a, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s and %s differ", one, other)
	}
}

// TestBinariesNeedNothing: no dynamic linker, no shared library, and each for its own machine.
func TestBinariesNeedNothing(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "armv7": elf.EM_ARM}
	for _, a := range architectures {
		f, err := elf.Open(a.binary())
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machines[a.name] {
			t.Errorf("%s is for %s", a.binary(), f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s has a segment %s", a.binary(), p.Type)
			}
		}
		if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
			t.Errorf("%s has symbols or debug information", a.binary())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The list is compared with the modules that Go has recorded in the binaries.
func TestBillOfMaterialsListsTheModulesInTheBinaries(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(dist, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
		Metadata   struct {
			Component struct {
				Version    string
				Components []struct {
					Name   string
					Hashes []struct{ Content string }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != version(t) {
		t.Errorf("it is %s of version %s", bom.BOMFormat, bom.Metadata.Component.Version)
	}
	want := map[string]bool{}
	var hashed []string
	for _, a := range architectures {
		info, err := buildinfo.ReadFile(a.binary())
		if err != nil {
			t.Fatal(err)
		}
		want["std@"+strings.TrimPrefix(info.GoVersion, "go")] = true
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			want[m.Path+"@"+m.Version] = true
		}
		content, err := os.ReadFile(a.binary())
		if err != nil {
			t.Fatal(err)
		}
		hashed = append(hashed, fmt.Sprintf("%s %x", filepath.Base(a.binary()), sha256.Sum256(content)))
	}
	for _, module := range []string{"k8s.io/kubernetes", "github.com/k3s-io/kine", "github.com/mattn/go-sqlite3"} {
		if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version, Purl string }) bool { return c.Name == module }) {
			t.Errorf("%s is not listed", module)
		}
	}
	for _, c := range bom.Components {
		if c.Purl == "" {
			t.Errorf("%s has no package URL", c.Name)
		}
		if id := c.Name + "@" + c.Version; !want[id] && c.Name != "glibc" {
			t.Errorf("%s is listed and in no binary, or listed twice", id)
		} else {
			delete(want, id)
		}
	}
	for id := range want {
		t.Errorf("%s is in a binary and not listed", id)
	}
	var listed []string
	for _, c := range bom.Metadata.Component.Components {
		for _, h := range c.Hashes {
			listed = append(listed, c.Name+" "+h.Content)
		}
	}
	if !slices.Equal(listed, hashed) {
		t.Errorf("it is of %q, the binaries are %q", listed, hashed)
	}
}
