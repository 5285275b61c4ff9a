package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/process"
)

// Two servers on one database would destroy it.
func TestOneServerPerDataDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	d, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory's mode is %v (%v)", info.Mode(), err)
	}
	for _, holder := range []string{"", "(process 42, https://127.0.0.1:6443)"} { // starting, and then ready
		if holder != "" {
			if err := d.ready(Ready{URL: "https://127.0.0.1:6443", Identity: process.Identity{PID: 42}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := openDataDir(path); err == nil || !strings.Contains(err.Error(), holder) {
			t.Errorf("a second server gets %v", err)
		}
		if _, err := ReadReady(path); (err == nil) != (holder != "") {
			t.Errorf("a second server leaves the ready file of %q: %v", holder, err)
		}
	}
	d.close()
	// Like a killed server, this one has left its ready file.
	d, err = openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if _, err := ReadReady(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a server that starts is ready: %v", err)
	}
}

// Processes that wait for the file read it at once.
func TestReadyFileIsCompleteOrMissing(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	if err := d.ready(Ready{URL: "first"}); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(readyFile(d.path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := before.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.ready(Ready{URL: "second"}); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadReady(d.path); err != nil || r.URL != "second" {
		t.Errorf("it says %+v (%v)", r, err)
	}
	// The old file was replaced, not overwritten.
	old, now := stat(t, before), stat(t, mustOpen(t, readyFile(d.path)))
	if os.SameFile(old, now) {
		t.Error("a reader may see half of each")
	}
	d.notReady()
	if _, err := os.Stat(readyFile(d.path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
	if err := os.WriteFile(readyFile(d.path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReady(d.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty one says %v", err)
	}
}

func mustOpen(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func stat(t *testing.T, f *os.File) os.FileInfo {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestAccessIsWhereClientsReachIt(t *testing.T) {
	for listens, c := range map[string]struct {
		url   string
		hosts []string // besides others
	}{
		"0.0.0.0":   {"https://127.0.0.1:6443", []string{serviceIP, "reap.example.com"}},
		"::":        {"https://127.0.0.1:6443", []string{serviceIP, "reap.example.com"}},
		"192.0.2.7": {"https://192.0.2.7:6443", []string{serviceIP, "reap.example.com", "192.0.2.7"}},
		"::1":       {"https://[::1]:6443", []string{serviceIP, "reap.example.com", "::1"}},
	} {
		dir := t.TempDir()
		s := &server{cfg: config.Server{DataDir: dir, TLSSANs: []string{"reap.example.com"}}}
		a, err := s.ensureAccess(&net.TCPAddr{IP: net.ParseIP(listens), Port: 6443})
		if err != nil {
			t.Fatal(err)
		}
		if a.url != c.url {
			t.Errorf("%s: clients reach it at %s, want %s", listens, a.url, c.url)
		}
		for _, host := range c.hosts {
			if !slices.Contains(a.hosts, host) {
				t.Errorf("%s: the certificate is not for %s, but %v", listens, host, a.hosts)
			}
		}
		if raw, err := os.ReadFile(a.kubeconfig); err != nil || !strings.Contains(string(raw), c.url) {
			t.Errorf("%s: the kubeconfig says %s (%v)", listens, raw, err)
		}
	}
}

// Child processes must not notify systemd for this process.
func TestNotifySocketIsTakenOutOfTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := systemd.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(notifyVariable, path)
	n := takeNotifySocket()
	if _, set := os.LookupEnv(notifyVariable); set {
		t.Error("it is still there")
	}
	n.send("READY=1")
	if _, set := os.LookupEnv(notifyVariable); set {
		t.Error("it is there again")
	}
	if err := systemd.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	told := make([]byte, 100)
	k, err := systemd.Read(told)
	if err != nil || string(told[:k]) != "READY=1" {
		t.Errorf("systemd is told %q (%v)", told[:k], err)
	}
}
