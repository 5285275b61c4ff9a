package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/service"
)

// TestServerIsCheckedAsItStarts: reap service install finds what `reap server` would end with.
func TestServerIsCheckedAsItStarts(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/reap/config.yaml.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "etc/reap/config.yaml"), "log-level: info\n")
	writeFile(t, filepath.Join(root, "etc/reap/bad.yaml"), "log-levle: info\n")
	writeFile(t, filepath.Join(root, "srv/sqlite/db/state.db"), "")
	t.Setenv("REAP_LOG_LEVEL", "loud") // of whoever installs: the service has an environment of its own
	for _, tc := range []struct{ arguments, environment, want string }{
		{"", "", ""},
		{"--disable=gc --new-store --data-dir /srv/reap", "REAP_LOG_FORMAT=json", ""},
		{"--config=/etc/reap/later.yaml", "", ""},
		{"--disabel=gc", "", "unknown flag --disabel (did you mean --disable?); see 'reap server --help'"},
		{"--data-dir", "", "--data-dir needs a value"},
		{"--disable gc job", "", "takes no arguments"},
		{"--gc-cycle-detection false", "", "takes no arguments"},
		{"--help", "", "start no server"},
		{"--https-listen-port=70000", "", "--https-listen-port: 70000 is not a port"},
		{"", "REAP_LOG_LEVEL=warning", `--log-level (from $REAP_LOG_LEVEL): "warning" is not accepted`},
		{"--config=/etc/reap/bad.yaml", "", "bad.yaml:1: unknown option \"log-levle\""},
		{"", "REAP_CONFIG=/etc/reap/bad.yaml", "bad.yaml:1"},
		{"", "REAP_TLS_SANS=a", "unknown variable REAP_TLS_SANS in the environment (did you mean REAP_TLS_SAN?)"},
		{"--data-dir=/srv/sqlite", "", ""},
		{"--data-dir=/srv/sqlite --datastore-endpoint=etcd", "", "holds an SQLite database"},
		{"--kube-apiserver-arg=no-such=x", "", "--kube-apiserver-arg"},
	} {
		err := checkServer(service.Server{Arguments: strings.Fields(tc.arguments), Environment: []string{tc.environment}, Root: root})
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q %q: %v, want %q", tc.arguments, tc.environment, err, tc.want)
		}
	}
}

// TestPortInUseIsFoundBeforeAServiceStarts, if it starts at once.
func TestPortInUseIsFoundBeforeAServiceStarts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := service.Server{Arguments: []string{"--config=", "--data-dir=" + t.TempDir(), fmt.Sprintf("--https-listen-port=%d", l.Addr().(*net.TCPAddr).Port)}}
	if err := checkServer(s); err != nil {
		t.Errorf("of a service that is started later: %v", err)
	}
	s.Starts = true
	if err := checkServer(s); err == nil || !strings.Contains(err.Error(), "address already in use by the process ") {
		t.Errorf("got %v", err)
	}
}

// TestDigestsOfAServiceAreItsServers: what its configuration files say counts, and where a value comes from does not.
func TestDigestsOfAServiceAreItsServers(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "etc/reap/config.yaml"), "log-level: debug # as ever\n")
	s := service.Server{Arguments: []string{"--data-dir=/srv", "--log-level=debug"}, Root: root}
	before, err := serverDigests(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Arguments = s.Arguments[:1]
	if same, err := serverDigests(s); err != nil || !maps.Equal(before, same) {
		t.Errorf("got %v, want %v (%v)", same, before, err)
	}
	writeFile(t, filepath.Join(root, "etc/reap/config.yaml"), "log-level: info\n")
	if other, err := serverDigests(s); err != nil || other["log-level"] == before["log-level"] || other["data-dir"] != before["data-dir"] {
		t.Errorf("got %v after %v (%v)", other, before, err)
	}
	writeFile(t, filepath.Join(root, "etc/reap/config.yaml"), "log-levle: info\n")
	if _, err := serverDigests(s); err == nil {
		t.Error("a file with a mistake has digests")
	}
}

// What the commands do on a machine is tested in pkg/service and tests/install.
func TestServiceErrorsAreOneLineAndACode(t *testing.T) {
	root := t.TempDir()
	here := []string{"--root", root, "--bin-dir", "/usr/local/bin"}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"instal"}, exitUsage, `unknown command "instal"; see 'reap service --help'`},
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
	if os.Geteuid() == 0 { // for others there is no service
		planned := append([]string{"service", "install", "--dry-run", "--systemd-dir", "/units"}, here...)
		got = reap(t, nil, append(slices.Clone(planned), "--", "--disabel=gc")...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "unknown flag --disabel (did you mean --disable?)") || !strings.HasSuffix(got.stderr, "nothing was changed\n") {
			t.Errorf("planned with a mistake: %+v", got)
		}
		got = reap(t, []string{"REAP_LOG_LEVEL=loud"}, planned...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "--log-level (from $REAP_LOG_LEVEL)") {
			t.Errorf("planned with a mistake in the environment: %+v", got)
		}
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
