//go:build releasetest

package scan

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/program"
)

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
