//go:build releasetest

package envtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// projects are modules of others, whose authors test their controllers with envtest. The tests run unchanged, and with the
// versions of Kubernetes' libraries that the authors chose.
var projects = []struct{ path, version, sum string }{
	// An operator with custom resources, webhooks and owner references.
	{"github.com/cert-manager/trust-manager", "v0.25.0", "h1:nGtkHH9wEacI5uACdsq8wqCKWsCw1PMrwHPJcrUFUXA="},
	// What applies, waits for and deletes objects in Flux.
	{"github.com/fluxcd/pkg/ssa", "v0.78.0", "h1:Wzm9uoYLDUCRV2SlJuBLkOQu/OnPKuTWyTzIFZbpVfY="},
}

func TestProjectsOwnTests(t *testing.T) {
	for _, p := range projects {
		t.Run(filepath.Base(p.path), func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "source")
			if err := os.CopyFS(source, os.DirFS(download(t, p.path+"@"+p.version, p.sum))); err != nil {
				t.Fatal(err)
			}
			m := module{path: p.path, source: source, in: source}
			m.run(t, func(string) bool { return true })
		})
	}
}

// download returns the folder with the files of a module, which have to be those of the sum.
func download(t *testing.T, module, sum string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside any module
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var got struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &got); err != nil || jsonErr != nil {
		t.Fatalf("downloading %s: %v, %v, %s", module, err, jsonErr, got.Error)
	}
	if got.Sum != sum {
		t.Fatalf("%s has the sum %s, not %s", module, got.Sum, sum)
	}
	return got.Dir
}
