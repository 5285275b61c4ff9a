package datastore

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is the longest path that fits sockaddr_un.sun_path with its
// final zero byte (unix(7)).
const maxSocketPath = 107

// socket is where the datastore listens: inside the data directory, which only its
// owner may enter.
type socket struct {
	path string
	// dir is open while the path goes through it; nil otherwise.
	dir *os.File
}

// newSocket finds a path that fits the limit, however deep the data directory
// is: a long one is reached through an open descriptor of the directory.
func newSocket(dir, name string) (*socket, error) {
	if path := filepath.Join(dir, name); len(path) <= maxSocketPath {
		return &socket{path: path}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	return &socket{path: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), dir: d}, nil
}

const socketScheme = "unix"

func (s *socket) url() string { return socketScheme + "://" + s.path }

// listen opens the socket, for its owner alone.
func (s *socket) listen() (net.Listener, error) {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	l, err := net.Listen("unix", s.path)
	if err != nil {
		return nil, fmt.Errorf("opening the datastore's socket: %w", err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the datastore's socket to others: %w", err), l.Close())
	}
	return l, nil
}

func (s *socket) close() {
	_ = os.Remove(s.path) // gone already after an orderly stop
	s.forget()
}

// forget is close for a socket of another process, which stays.
func (s *socket) forget() {
	if s.dir != nil {
		_ = s.dir.Close() // only read, nothing can be lost
	}
}
