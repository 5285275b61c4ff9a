package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// dataDir is the data directory, held by this process alone.
type dataDir struct {
	path string
	lock *flock.Flock
}

// ready is what the ready file says. Its fields are stable.
type ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	PID        int    `json:"pid"`
	Version    string `json:"version"`
}

// openDataDir makes the directory if need be and locks it. The lock goes with the
// process, however that ends.
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
		return nil, fmt.Errorf("another reap server%s uses the data directory %s: stop it, or choose another with --data-dir", d.holder(), path)
	}
	d.notReady()
	return d, nil
}

// holder names the server that has the directory, if it has said that it is ready.
func (d *dataDir) holder() string {
	raw, err := os.ReadFile(d.readyFile())
	var r ready
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d, %s)", r.PID, r.URL)
}

func (d *dataDir) readyFile() string { return filepath.Join(d.path, "ready.json") }

// ready writes the ready file; whoever sees it sees all of it.
func (d *dataDir) ready(r ready) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	next := d.readyFile() + ".next"
	if err := os.WriteFile(next, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	if err := os.Rename(next, d.readyFile()); err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	return nil
}

// notReady takes the ready file away, which may be one that a killed server left.
func (d *dataDir) notReady() {
	if err := os.Remove(d.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		// Whoever waits for the file to appear would be misled, but the lock tells.
		_ = os.Truncate(d.readyFile(), 0)
	}
}

// close gives the directory back.
func (d *dataDir) close() {
	_ = d.lock.Unlock() // ends with the process at the latest
}
