package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the commands do on a machine is tested in pkg/service and tests/install.
func TestServiceErrorsAreOneLineAndACode(t *testing.T) {
	root := t.TempDir()
	here := []string{"--root", root, "--bin-dir", "/usr/local/bin"}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"instal"}, exitUsage, `did you mean "install"?`},
		{[]string{"install", "--wait", "0s"}, exitUsage, "--wait: 0s"},
		{[]string{"install", "--sha256", "abc"}, exitUsage, `--sha256 "abc" is no SHA-256`},
		{[]string{"install", "--name", "../x"}, exitUsage, "--name may hold"},
		{[]string{"install", "--systemd-dir", "relative"}, exitUsage, `--systemd-dir "relative" is not an absolute path`},
		{[]string{"install", "--", "gc"}, exitUsage, "there is no program /usr/local/bin/reap"},
		{[]string{"uninstall", "now"}, exitUsage, "takes no arguments"},
		{[]string{"uninstall"}, exitRun, "reap is not installed"},
		{[]string{"uninstall", "--name", "bench", "--purge"}, exitRun, "reap-bench is not installed"},
		{[]string{"status"}, exitRun, "reap is not installed"},
		{[]string{"status", "-o", "yaml"}, exitUsage, "--output has to be"},
	} {
		args := append([]string{"service", tc.args[0]}, here...)
		got := reap(t, nil, append(args, tc.args[1:]...)...)
		if got.code != tc.code || !strings.Contains(got.stderr, tc.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("reap %q: %+v, want code %d and %q", args, got, tc.code, tc.want)
		}
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("something was changed: %v, %v", left, err)
	}
}

func TestServiceIsPlannedAndShown(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "reap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	here := []string{"--root", root, "--bin-dir", "/bin"}
	got := reap(t, nil, append(append([]string{"service", "install", "--dry-run", "--systemd-dir", "/units"}, here...), "--", "--disable=gc")...)
	if got.code != exitOK || !strings.Contains(got.stdout, "would write /bin/reap-uninstall.sh") {
		t.Errorf("planned: %+v", got)
	}
	got = reap(t, nil, append([]string{"service", "status", "-o", "json"}, here...)...)
	var status struct {
		Version   int
		Service   string
		Installed bool
	}
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || status.Version != 1 || status.Service != "reap" || status.Installed {
		t.Errorf("shown: %+v (%v)", got, err)
	}
}
