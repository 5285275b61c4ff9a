package service

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runningServer starts a process that looks like `reap server` with these arguments, and ends with the test.
func runningServer(t *testing.T, arguments ...string) (pid int) {
	t.Helper()
	dir := t.TempDir()
	fake(t, dir, "reap", "read x\n")
	cmd := exec.Command(filepath.Join(dir, "reap"), append([]string{"server"}, arguments...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // read fails at the end of its input
	})
	return cmd.Process.Pid
}

// TestEditedSettingsAreNoticed by status, and by an installation that writes nothing.
func TestEditedSettingsAreNoticed(t *testing.T) {
	s, out, calls := runningMachine(t, Systemd)
	mustInstall(t, s, Install{Hash: hash, Arguments: []string{"--disable=gc"}})
	calls()
	commands := filepath.Dir(mustLookPath(t, "systemctl"))
	// A drop-in sets a variable.
	fake(t, commands, "systemctl", `case "$2" in --property=MainPID) echo MainPID=1 ;; --property=Environment) echo 'Environment="REAP_LOG_FORMAT=js on"' ;; --quiet) ;; *) echo "$@" >>$t/calls ;; esac`)
	var seen Server
	digests := map[string]string{"log-level": "1", "tls-san": "2", "of-this-version": "3"}
	var failing error
	s.Digests = func(server Server) (map[string]string, error) {
		seen = server
		return digests, failing
	}
	pid := runningServer(t, "--disable=gc", "a b")
	put(t, s, "/var/lib/reap/ready.json", fmt.Sprintf(`{"pid": %d, "settings": {"log-level": "1", "tls-san": "2", "of-another-version": "4"}}`, pid), 0o600)
	put(t, s, "/etc/reap/reap.env", "# mine\nREAP_LOG_LEVEL='debug'\n", 0o600)

	status, err := ReadStatus(t.Context(), s)
	if err != nil || !status.Ready || status.RestartPending || status.ChangedSettings != nil {
		t.Errorf("before a change: %+v (%v)", status, err)
	}
	if want := []string{"--disable=gc", "a b"}; !slices.Equal(seen.Arguments, want) {
		t.Errorf("the server has the arguments %q, want %q", seen.Arguments, want)
	}
	if want := []string{"REAP_LOG_FORMAT=js on", "REAP_LOG_LEVEL=debug"}; !slices.Equal(seen.Environment, want) {
		t.Errorf("the server has the environment %q, want %q", seen.Environment, want)
	}
	mustInstall(t, s, Install{Hash: hash})
	if got := calls(); got != "" {
		t.Errorf("without a change systemctl was told %q", got)
	}

	digests = map[string]string{"log-level": "x", "tls-san": "y", "of-this-version": "z"}
	status, err = ReadStatus(t.Context(), s)
	if err != nil || !status.RestartPending || !slices.Equal(status.ChangedSettings, []string{"log-level", "tls-san"}) {
		t.Errorf("after a change: %+v (%v)", status, err)
	}
	var table strings.Builder
	if err := status.Print(&table); err != nil || !strings.Contains(table.String(), "restart pending  yes: changed log-level, tls-san\n") {
		t.Errorf("it prints %s (%v)", table.String(), err)
	}
	out.(interface{ Reset() }).Reset()
	mustInstall(t, s, Install{Hash: hash})
	if got := calls(); got != "daemon-reload\nrestart reap.service\n" || !strings.Contains(out.String(), "changed since the service was started: log-level, tls-san") {
		t.Errorf("systemctl was told %q, and the user %s", got, out)
	}

	failing = errors.New("/etc/reap/config.yaml:1:\n unknown option")
	status, err = ReadStatus(t.Context(), s)
	if want := "a restart would fail: /etc/reap/config.yaml:1: unknown option"; err != nil || !status.RestartPending || status.SettingsError != want || status.Verdict() != nil {
		t.Errorf("after a mistake: %+v (%v)", status, err)
	}
	// The file of a server that was killed says nothing about the one that runs now.
	put(t, s, "/var/lib/reap/ready.json", fmt.Sprintf(`{"pid": %d, "bootID": "x", "processStart": 1, "settings": {"log-level": "1"}}`, pid), 0o600)
	if status, err = ReadStatus(t.Context(), s); err != nil || status.RestartPending || status.PID != 0 {
		t.Errorf("with the file of another process: %+v (%v)", status, err)
	}
}

func mustLookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
