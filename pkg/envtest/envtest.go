// Package envtest makes the folder in which controller-runtime's envtest looks for the programs that it starts. All of
// them are reap, which acts as the program by whose name it is called.
package envtest

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Programs are the names that envtest starts programs by.
var Programs = []string{"etcd", "kube-apiserver", "kubectl"}

// A Folder is one that $KUBEBUILDER_ASSETS can name.
type Folder struct {
	// Dir is absolute.
	Dir string
	// Copied are the programs that are copies, because the file system has no links. The others are links to Binary.
	Copied []string
	// Binary is the absolute path of reap itself.
	Binary string
}

// DefaultDir returns the folder for users who name none: below the user's cache directory, because it can be made anew
// at any time.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "reap", "envtest"), nil
}

// Make makes the folder, or makes it name this binary if it is one already. Another program by one of the names is an
// error, and stays; nothing is changed then.
func Make(dir, binary string) (Folder, error) {
	return maker{os.Symlink}.make(dir, binary)
}

// maker makes links with a function that fails where there are none.
type maker struct{ link func(old, new string) error }

func (m maker) make(dir, binary string) (Folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Folder{}, err
	}
	f := Folder{Dir: dir, Binary: binary}
	for _, name := range Programs {
		if err := checkReplaceable(filepath.Join(dir, name), binary); err != nil {
			return Folder{}, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Folder{}, err
	}
	for _, name := range Programs {
		copied, err := m.put(filepath.Join(dir, name), binary)
		if err != nil {
			return Folder{}, fmt.Errorf("making %s: %w", filepath.Join(dir, name), err)
		}
		if copied {
			f.Copied = append(f.Copied, name)
		}
	}
	return f, nil
}

// checkReplaceable returns an error if the path is something that Make has not made.
func checkReplaceable(path, binary string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil // a link to a reap that has been removed
		}
	}
	own, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("reading %s: %w", binary, err)
	}
	if there, err := buildinfo.ReadFile(path); err != nil || there.Main.Path != own.Main.Path {
		return fmt.Errorf("%s exists and is not reap", path)
	}
	return nil
}

// put replaces the path in one step by a link to the binary, or else by a copy.
func (m maker) put(path, binary string) (copied bool, err error) {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that was cut short
		return false, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next) // the error is about what kept it from being used
		}
	}()
	if err := m.link(binary, next); err != nil {
		if err := copyProgram(next, binary); err != nil {
			return false, err
		}
		copied = true
	}
	return copied, os.Rename(next, path)
}

func copyProgram(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
