//go:build releasetest

package scan

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/program"
)

// found is govulncheck's exit code if the program has a vulnerability.
const found = 3

// errNoDatabase is the end of a scan that never began: it says nothing about the program.
var errNoDatabase = errors.New("the database of vulnerabilities cannot be had")

// vulnerabilities scans the built program, as users have it. said is what there is to say about it.
func vulnerabilities(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "govulncheck")
	if out, err := exec.Command("go", "build", "-C", filepath.Join(root, "scripts", "tools"), "-o", tool, "golang.org/x/vuln/cmd/govulncheck").CombinedOutput(); err != nil {
		t.Fatalf("building govulncheck: %v\n%s", err, out)
	}
	out, err := exec.Command(tool, append(append([]string{"-mode=binary"}, args...), program.Path())...).CombinedOutput()
	if err != nil && strings.Contains(string(out), "fetching vulnerabilities") {
		return string(out), errNoDatabase
	}
	return string(out), err
}

// TestNoKnownVulnerability needs https://vuln.go.dev, or a copy of it that $GOVULNDB names. Where neither can be had it has not run,
// and says so.
func TestNoKnownVulnerability(t *testing.T) {
	var args []string
	if db := os.Getenv("GOVULNDB"); db != "" {
		args = append(args, "-db", db)
	}
	said, err := vulnerabilities(t, args...)
	if errors.Is(err, errNoDatabase) {
		t.Skipf("NOT RUN: %v; set GOVULNDB to a copy of it. %s", err, strings.Join(strings.Fields(said), " "))
	}
	if err != nil {
		t.Errorf("govulncheck: %v\n%s", err, said)
	}
}

// TestVulnerabilityIsFound holds the scan itself: with a database in which a module of the program is vulnerable it fails, with one
// that has nothing it does not, and without one it has not run.
func TestVulnerabilityIsFound(t *testing.T) {
	for name, vulnerable := range map[string]string{"vulnerable": "k8s.io/client-go", "not": "example.com/nothing"} {
		said, err := vulnerabilities(t, "-db", "file://"+database(t, vulnerable))
		exit := (*exec.ExitError)(nil)
		if is := errors.As(err, &exit) && exit.ExitCode() == found; is != (name == "vulnerable") || err != nil && !is || is && !strings.Contains(said, "GO-2000-0001") {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
	if said, err := vulnerabilities(t, "-db", "http://127.0.0.1:1"); !errors.Is(err, errNoDatabase) {
		t.Errorf("without a database: %v\n%s", err, said)
	}
}

// database makes one in which every version of a module is vulnerable, in the form of https://go.dev/doc/security/vuln/database.
func database(t *testing.T, module string) string {
	t.Helper()
	const id, modified = "GO-2000-0001", "2026-01-01T00:00:00Z"
	dir := t.TempDir()
	for path, content := range map[string]any{
		"index/db.json":      map[string]any{"modified": modified},
		"index/modules.json": []any{map[string]any{"path": module, "vulns": []any{map[string]any{"id": id, "modified": modified}}}},
		"index/vulns.json":   []any{map[string]any{"id": id, "modified": modified}},
		"ID/" + id + ".json": map[string]any{
			"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "summary": "made up for a test", "details": "made up",
			"affected": []any{map[string]any{
				"package": map[string]any{"name": module, "ecosystem": "Go"},
				"ranges":  []any{map[string]any{"type": "SEMVER", "events": []any{map[string]any{"introduced": "0"}}}},
			}},
		},
	} {
		raw, err := json.Marshal(content)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
