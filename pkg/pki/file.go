package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writeAtomic replaces path by a file with data and exactly mode, whatever the
// umask. After a power cut path holds the old file or the new one, whole; once
// writeAtomic has returned, the new one. A symbolic link at path is replaced.
//
// The temporary file has a fixed name that nobody else uses, so what a cut left
// of it goes with the next write. Two writers of one path must not run at once.
func writeAtomic(path string, data []byte, mode os.FileMode) (err error) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	temp := filepath.Join(dir, "."+base+".reap-tmp")
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w: check that %s has free space and is writable for the user that runs reap", path, err, dir)
		}
	}()
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		// Before the rename, which may reach the disk before the data otherwise.
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		// Should this fail too, the next write of path does it.
		_ = os.Remove(temp)
		return err
	}
	return syncDir(dir)
}

// makeDir makes dir and its missing parents, mode 0700, so that they last
// through a power cut: a CA that clients were given must not vanish with its
// directory. Directories that exist stay as they are.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		info, statErr := os.Stat(dir)
		if statErr == nil && info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the names in dir last. Some file systems (vfat over FUSE, 9p)
// refuse the call; nothing more can be done there.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// readPrivate reads a file that holds a private key, and takes from it all
// permissions beyond 0600. Its error is fs.ErrNotExist if there is no file; a
// symbolic link to nothing is another error, since the key may be on a disk that
// is not there yet.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("reading key: %s is a symbolic link to nothing: bring back what it points to, or remove it", path)
		}
		return nil, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading key: %s is not a regular file: move it away", path)
	}
	if err == nil && info.Mode().Perm()&^0o600 != 0 {
		err = os.Chmod(path, info.Mode().Perm()&0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("making key private: %w: give %s to the user that runs reap, mode 0600", err, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading key: %w: give %s to the user that runs reap, mode 0600", err, path)
	}
	return data, nil
}
