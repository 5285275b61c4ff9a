package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// dataDir is the data directory, held by this process alone.
type dataDir struct {
	path string
	lock *flock.Flock
}

// Ready is what the ready file says. Its fields are stable.
type Ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	PID        int    `json:"pid"`
	Version    string `json:"version"`
}

// ReadReady reads the ready file of a data directory. The error is fs.ErrNotExist if
// no server is ready. A killed server leaves its file until the next server starts.
func ReadReady(dataDir string) (r Ready, err error) {
	path := readyFile(dataDir)
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) == 0 { // notReady could not remove it
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return r, fmt.Errorf("reading the ready file: %w", err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("reading the ready file %s: %w", path, err)
	}
	return r, nil
}

func readyFile(dataDir string) string { return filepath.Join(dataDir, "ready.json") }

// openDataDir creates the directory if it is missing, and locks it. The lock ends with the
// process, even if the process is killed.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w: choose another with --data-dir", err)
	}
	d := &dataDir{path: path, lock: flock.New(filepath.Join(path, "lock"), flock.SetPermissions(0o600))}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the data directory %s: %w: choose another with --data-dir", path, err)
	}
	if !locked {
		return nil, fmt.Errorf("another reap server%s uses the data directory %s: %w", d.holder(), path, errInUse)
	}
	// Root may run a command on the data directory of a server that runs as another user, which has to open the lock, too. A file
	// system that has no owners is no reason to end.
	_ = likeOwner(d.lock.Path(), path)
	d.notReady()
	return d, nil
}

// errInUse is wrapped by the error of openDataDir if another process has locked the directory.
var errInUse = errors.New("stop it, or choose another with --data-dir")

// holder names the server that has locked the directory, if that server is ready.
func (d *dataDir) holder() string {
	r, err := ReadReady(d.path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d, %s)", r.PID, r.URL)
}

// ready writes the ready file in one step: readers never see half of it.
func (d *dataDir) ready(r Ready) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	path := readyFile(d.path)
	next := path + ".next"
	if err := os.WriteFile(next, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	return nil
}

// notReady removes the ready file, also one that a killed server has left behind.
func (d *dataDir) notReady() {
	path := readyFile(d.path)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		// The file would mislead processes that wait for it to appear: empty it at least.
		_ = os.Truncate(path, 0)
	}
}

// close unlocks the directory.
func (d *dataDir) close() {
	_ = d.lock.Unlock() // ends with the process at the latest
}
