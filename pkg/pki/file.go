package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// newFile is the intended content and exact mode of a path.
type newFile struct {
	path string
	data []byte
	mode os.FileMode
}

// writeAtomic is replace for one file.
func writeAtomic(path string, data []byte, mode os.FileMode) error {
	return replace(newFile{path, data, mode})
}

// replace writes files of one directory atomically, each with its mode regardless of
// the umask. After a power cut each path holds the old or the new file; once replace
// has returned, the new one. A symbolic link at a path is replaced.
//
// All files are on the disk before the first is renamed. A watcher of a key and its
// certificate therefore sees one without the other only between the two renames.
//
// The temporary files have fixed names that nobody else uses, so the next write
// removes what a power cut has left. Two writers of one path must not run at once.
func replace(files ...newFile) error {
	for i, f := range files {
		if err := f.prepare(); err != nil {
			discard(files[:i+1])
			return f.failed(err)
		}
	}
	for i, f := range files {
		if err := os.Rename(f.temp(), f.path); err != nil {
			discard(files[i:])
			return f.failed(err)
		}
	}
	if err := syncDir(filepath.Dir(files[0].path)); err != nil {
		return files[0].failed(err)
	}
	return nil
}

// discard removes temporary files. If that fails, the next write removes them.
func discard(files []newFile) {
	for _, f := range files {
		_ = os.Remove(f.temp())
	}
}

func (f newFile) temp() string {
	return filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".reap-tmp")
}

func (f newFile) failed(err error) error {
	return fmt.Errorf("writing %s: %w: check that %s has free space and is writable for the user that runs reap", f.path, err, filepath.Dir(f.path))
}

// prepare writes the temporary file.
func (f newFile) prepare() error {
	if err := os.Remove(f.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := os.OpenFile(f.temp(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = temp.Write(f.data)
	if err == nil {
		err = temp.Chmod(f.mode)
	}
	if err == nil {
		// Sync before the rename, which might otherwise reach the disk before the data.
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	return err
}

// makeDir creates dir and its missing parents with mode 0700, and syncs them: a CA
// that clients trust must not vanish with its directory in a power cut. Existing
// directories are not changed.
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

// syncDir writes the names in dir to the disk. Some file systems (vfat over FUSE,
// 9p) do not support this; that is not an error.
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

// readPrivate reads a file that holds a private key, and removes all permissions
// beyond 0600. The error is fs.ErrNotExist if there is no file. A dangling symbolic
// link is a different error, since the key may be on a disk that is not mounted yet.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("reading key: %s is a dangling symbolic link: restore the file it points to, or remove the link", path)
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
