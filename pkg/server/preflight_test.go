package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/process"
)

// TestPreflight finds beside a running server what would end the next one at its start.
func TestPreflight(t *testing.T) {
	sqlite := func(t *testing.T, dir string) { writeTestFile(t, filepath.Join(dir, "db", "state.db"), "") }
	etcd := func(t *testing.T, dir string) {
		writeTestFile(t, filepath.Join(dir, "etcd", "member", "wal", "0.wal"), "")
	}
	marked := func(t *testing.T, dir string) {
		if err := writeMarker(config.PKIDir(dir), marker{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		cfg  config.Server
		has  func(t *testing.T, dir string)
		want string
	}{
		{name: "new directory"},
		{name: "SQLite", has: sqlite},
		{name: "etcd on SQLite", cfg: config.Server{DatastoreEndpoint: config.EmbeddedEtcd}, has: sqlite, want: "holds an SQLite database"},
		{name: "SQLite on etcd", has: etcd, want: "holds an etcd store"},
		{name: "etcd", cfg: config.Server{DatastoreEndpoint: config.EmbeddedEtcd}, has: etcd},
		{name: "another database's directory", cfg: config.Server{DatastoreEndpoint: "postgres://a/b"}, has: sqlite},
		{name: "argument that kube-apiserver does not take", cfg: config.Server{KubeAPIServerArgs: []string{"no-such=x"}}, want: "--kube-apiserver-arg"},
		{name: "file", has: func(t *testing.T, dir string) { writeTestFile(t, dir, "") }, want: "it is no directory"},
		{name: "below a file", has: func(t *testing.T, dir string) { writeTestFile(t, filepath.Dir(dir), "") }, want: "not a directory"},
		{name: "newer format", has: func(t *testing.T, dir string) { writeTestFile(t, formatFile(dir), `{"format": 99, "version": "v9"}`) }, want: "in format 99"},
		{name: "interrupted restore", has: func(t *testing.T, dir string) { writeTestFile(t, restoringFile(dir), "") }, want: "was interrupted"},
		{name: "lost store", has: marked, want: "is empty or missing"},
		{name: "lost store that is given up", cfg: config.Server{NewStore: true}, has: marked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			tc.cfg.DataDir = "/srv/reap"
			dir := filepath.Join(root, tc.cfg.DataDir)
			if tc.has != nil {
				tc.has(t, dir)
			}
			err := Preflight(tc.cfg, root)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
				t.Error("it has locked the directory")
			}
		})
	}
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestPreflightPort: a port in use is found, unless the service that is about to be restarted has it.
func TestPreflightPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := config.Server{BindAddress: "127.0.0.1", HTTPSListenPort: l.Addr().(*net.TCPAddr).Port}
	running := &dataDir{path: t.TempDir()}
	if err := PreflightPort(cfg, running.path); err != nil {
		t.Errorf("while the service is not ready: %v", err)
	}
	if err := running.ready(Ready{URL: "https://" + l.Addr().String(), Identity: process.Self()}); err != nil {
		t.Fatal(err)
	}
	if err := PreflightPort(cfg, running.path); err != nil {
		t.Errorf("of the service itself: %v", err)
	}
	elsewhere := cfg
	elsewhere.BindAddress = "203.0.113.1" // of no machine (RFC 5737)
	if err := PreflightPort(elsewhere, running.path); err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("of another machine: %v", err)
	}
	if err := PreflightPort(cfg, ""); err == nil || !strings.Contains(err.Error(), "--https-listen-port") {
		t.Errorf("of another program: %v", err)
	}
	if err := running.ready(Ready{URL: "https://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if err := PreflightPort(cfg, running.path); err == nil {
		t.Error("a port of another program is the service's")
	}
	cfg.HTTPSListenPort = 0
	if err := PreflightPort(cfg, ""); err != nil {
		t.Errorf("any free one: %v", err)
	}
}
