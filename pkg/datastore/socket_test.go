package datastore

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder returns one with a short path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listening opens the socket of a folder.
func listening(t *testing.T, dir string) *socket {
	t.Helper()
	s, err := newSocket(dir, "kine.sock")
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return s
}

func TestSocketFitsHoweverDeepTheFolder(t *testing.T) {
	for _, length := range []int{maxSocketPath - 1, maxSocketPath, maxSocketPath + 1, 3 * maxSocketPath} {
		dir := folder(t)
		for rest := length - len(filepath.Join(dir, "/kine.sock")) - 1; rest > 0; rest -= 101 {
			dir = filepath.Join(dir, strings.Repeat("d", min(rest, 100)))
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := len(filepath.Join(dir, "kine.sock")); length <= maxSocketPath+1 && got != length {
			t.Fatalf("the path has %d bytes, not %d", got, length)
		}
		s := listening(t, dir)
		if len(s.path) > maxSocketPath {
			t.Errorf("%d bytes: the socket's path has %d", length, len(s.path))
		}
		c, err := net.Dial("unix", s.path)
		if err != nil {
			t.Errorf("%d bytes: %v", length, err)
			continue
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		s.close()
		if _, err := os.Lstat(filepath.Join(dir, "kine.sock")); !os.IsNotExist(err) {
			t.Errorf("%d bytes: the socket stays", length)
		}
	}
}

func TestSocketIsItsOwnersAlone(t *testing.T) {
	dir := folder(t)
	listening(t, dir)
	info, err := os.Lstat(filepath.Join(dir, "kine.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v (%v)", info.Mode(), err)
	}
}

func TestSocketOfAKilledProcessIsInNobodysWay(t *testing.T) {
	dir := folder(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "kine.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	listening(t, dir)
}
