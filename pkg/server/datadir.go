package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/process"
)

// dataDir is the data directory, held by this process alone.
type dataDir struct {
	path  string
	lock  *flock.Flock
	store *os.File // SQLite's file, which is locked too; nil if there is none
}

// Ready is what the ready file says. Its fields are stable.
type Ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	Version    string `json:"version"`
	// Identity tells the file of a server that was killed from that of one that runs.
	process.Identity
	// Settings holds a digest of each setting that the server runs with, by the name of its flag.
	Settings map[string]string `json:"settings,omitempty"`
}

// ReadReady reads the ready file of a data directory. The error is fs.ErrNotExist if
// no server is ready. A killed server leaves its file until the next server starts: Identity.Runs says
// whether it does.
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
	if err := d.holdStore(); err != nil {
		d.close()
		return nil, err
	}
	// Root may run a command on the data directory of a server that runs as another user, which has to open the lock, too. A file
	// system that has no owners is no reason to end.
	_ = likeOwner(d.lock.Path(), path)
	d.notReady()
	return d, nil
}

// holdStore locks the store's own file, if there is one by now: the directory's lock does not hold once its file is removed. SQLite
// locks with fcntl, which flock does not meet, so that commands can go on reading. etcd locks its file itself, with flock.
func (d *dataDir) holdStore() error {
	if d.store == nil {
		f, err := lockFile(filepath.Join(datastore.FilesIn(d.path, datastore.SQLite), "state.db"))
		if err != nil {
			return d.inUse(err)
		}
		d.store = f
	}
	f, err := lockFile(filepath.Join(datastore.FilesIn(d.path, config.EmbeddedEtcd), "member", "snap", "db"))
	if err != nil {
		return d.inUse(err)
	}
	if f != nil {
		_ = f.Close() // which unlocks it, for this process's etcd
	}
	return nil
}

// inUse is the error of a file that another process has locked.
func (d *dataDir) inUse(err error) error {
	return fmt.Errorf("another reap server%s uses the data directory %s (%w), although its lock is gone: %w", d.holder(), d.path, err, errInUse)
}

// lockFile opens and locks a file; nil if there is none, or it cannot be opened or locked: its use returns a better error.
func lockFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // this process has not opened SQLite's yet
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is locked", path)
		}
		return nil, nil // a file system without such locks
	}
	return f, nil
}

// remove removes a directory that has been made for nothing.
func (d *dataDir) remove() {
	entries, err := os.ReadDir(d.path)
	if err == nil && len(entries) == 1 && entries[0].Name() == filepath.Base(d.lock.Path()) {
		_ = os.Remove(d.lock.Path()) // the error that led here is said
		_ = os.Remove(d.path)
	}
}

// warnIfOpen says what helps if others may write the directory: they could replace the database and the keys.
func (d *dataDir) warnIfOpen() {
	info, err := os.Stat(d.path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return
	}
	logrus.WithFields(logrus.Fields{"directory": d.path, "mode": info.Mode().Perm()}).Warn("other users of this machine may write the data directory, and with it the keys and the database: run 'chmod go-w' on it")
}

// mustBeWritable returns an error that says what is wrong with a directory that cannot be written.
func mustBeWritable(dataDir string) error {
	if err := unix.Access(dataDir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("the data directory %s cannot be written: %w: mount its disk writable, give it to the user that runs reap, or choose another with --data-dir", dataDir, err)
	}
	return nil
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
	if d.store != nil {
		_ = d.store.Close() // after SQLite has closed its own: closing any ends the locks that SQLite has
	}
	_ = d.lock.Unlock() // ends with the process at the latest
}
