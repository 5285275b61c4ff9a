package service

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/goldenfile"
)

// hash stands for a binary that these tests need not have.
var hash = strings.Repeat("ab", 32)

// machine returns the settings of a service on a machine below a root of its own, with an init system that does not
// run, and what is told about it.
func machine(t *testing.T, kind string) (Settings, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	s := Settings{Root: t.TempDir(), BinDir: "/usr/local/bin", Out: out, Stdout: io.Discard, Stderr: io.Discard}
	t.Setenv("PATH", t.TempDir())
	put(t, s, "/usr/local/bin/reap", "#!/bin/sh\n", 0o755)
	switch kind {
	case Systemd:
		s.SystemdDir = "/etc/systemd/system"
	case OpenRC:
		put(t, s, "/sbin/openrc-run", "", 0o755)
	}
	return s, out
}

// TestGolden holds what is written against what install.sh wrote before it handed this to `reap service`: the files of
// testdata were recorded from it. Only the uninstall script and logrotate's file are new.
func TestGolden(t *testing.T) {
	odd := []string{"--disable=gc", "--tls-san", "odd $name%", "--tls-san=it's", `--x="y\z"`, ""}
	for _, tc := range []struct {
		name        string
		service     string
		systemdDir  string
		arguments   []string
		environment []string
		config      string
	}{
		{name: "plain"},
		{name: "odd", arguments: odd, environment: []string{"HOME=/root", `REAP_ODD=a"b$c` + "`d\\e", "REAP_LOG_LEVEL=debug"}},
		{name: "second", service: "bench", arguments: []string{"--disable=gc"}},
		{name: "usr", arguments: []string{"--data-dir=/usr/fourth"}},
		{name: "config", config: "log-level: info\ndata-dir: '/srv/other one'  # on the other disk\n"},
	} {
		for _, kind := range []string{Systemd, OpenRC} {
			t.Run(kind+"-"+tc.name, func(t *testing.T) {
				s, _ := machine(t, kind)
				s.Name = tc.service
				if tc.config != "" {
					put(t, s, "/etc/reap/config.yaml", tc.config, 0o644)
				}
				i, err := Plan(t.Context(), s, Install{Arguments: tc.arguments, Environment: tc.environment, Hash: hash})
				if err != nil {
					t.Fatal(err)
				}
				if err := i.Apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, f := range i.files {
					name := filepath.Base(f.path)
					if f.path == i.rotationFile() {
						name = "logrotate" // the init script has the same name
					}
					golden := filepath.Join("testdata", kind+"-"+tc.name+"-"+name)
					goldenfile.File(t, golden, get(t, s, f.path))
				}
			})
		}
	}
}
