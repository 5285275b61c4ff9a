package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// inGate are the packages of controller-runtime whose tests run in each gate; the others do before a release.
var inGate = []string{"pkg/envtest"}

// TestControllerRuntimesOwnTests runs them, unchanged. What they import is what this module does: the Kubernetes of reap.
func TestControllerRuntimesOwnTests(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "controller-runtime")
	if err := os.CopyFS(source, os.DirFS(goList(t, "-m", "-f", "{{.Dir}}", controllerRuntime))); err != nil {
		t.Fatal(err)
	}
	makeExecutable(t, source)
	modfile := filepath.Join(dir, "suites.mod")
	for from, to := range map[string]string{"go.mod": modfile, "go.sum": filepath.Join(dir, "suites.sum")} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "mod", "edit", "-replace="+controllerRuntime+"="+source, modfile).CombinedOutput(); err != nil {
		t.Fatalf("replacing the module by its copy: %v: %s", err, out)
	}
	m := module{path: controllerRuntime, source: source, flags: []string{"-modfile=" + modfile}}
	pkgs := m.suites(t)
	for _, pkg := range inGate {
		if !slices.Contains(pkgs, pkg) {
			t.Errorf("no tests of %s start a control plane", pkg)
		}
	}
	m.run(t, func(pkg string) bool { return os.Getenv("REAP_TEST_SIZE") == "long" || slices.Contains(inGate, pkg) })
}

// goList returns what go list prints.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// makeExecutable gives scripts the mode that the module's repository has and its archive does not keep.
func makeExecutable(t *testing.T, source string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(source, "pkg/internal/testing/controlplane/testdata/*.sh"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
