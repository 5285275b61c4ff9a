package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// newFile is what is to be at a path, with exactly this mode.
type newFile struct {
	path string
	data []byte
	mode os.FileMode
}

// writeAtomic is replace for one file.
func writeAtomic(path string, data []byte, mode os.FileMode) error {
	return replace(newFile{path, data, mode})
}

// replace puts the files, all of one directory, into their places, each whole and
// with its mode whatever the umask. After a power cut each path holds the old file
// or the new one; once replace has returned, the new one. A symbolic link at a path
// is replaced.
//
// All are on the disk before the first takes its place: whoever watches a key and
// its certificate finds one without the other for no longer than two renames take.
//
// The temporary files have fixed names that nobody else uses, so what a cut left of
// them goes with the next write. Two writers of one path must not run at once.
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

// discard removes temporary files. Should that fail, the next write does it.
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
		// Before the rename, which may reach the disk before the data otherwise.
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	return err
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
