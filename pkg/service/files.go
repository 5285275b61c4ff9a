package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A file is one that a service consists of.
type file struct {
	path    string
	content string
	mode    fs.FileMode
	// quiet means that nothing that runs is concerned by a change.
	quiet bool
	// gone means that there must be no such file.
	gone bool
}

// differs reports whether the file is missing or has another content.
func (p place) differs(f file) (bool, error) {
	if f.gone {
		return exists(p.at(f.path)), nil
	}
	if !isFile(p.at(f.path)) {
		return true, nil
	}
	raw, err := os.ReadFile(p.at(f.path))
	return string(raw) != f.content, err
}

// checkPlace fails where write would, because of the path alone: a name that is too long, a file above it, a directory
// in its place.
func (p place) checkPlace(f file) error {
	if f.gone {
		return nil
	}
	target := p.at(f.path)
	if _, err := os.Lstat(target + next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	if isDir(target) {
		return fmt.Errorf("writing %s: there is a directory of that name", f.path)
	}
	return nil
}

// next ends the name of a file that is being written.
const next = ".new"

// write puts the file into its place, whole or not at all.
func (p place) write(f file) (err error) {
	target := p.at(f.path)
	unfinished := target + next
	if err := makeDir(filepath.Dir(target)); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	_ = os.Remove(unfinished) // of a run that was cut short
	defer func() {
		if err != nil {
			_ = os.Remove(unfinished) // the error is about what kept it from being used
			err = fmt.Errorf("writing %s: %w", f.path, err)
		}
	}()
	out, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	if _, err = out.WriteString(f.content); err == nil {
		err = out.Chmod(f.mode) // whatever the umask
	}
	if err == nil {
		err = out.Sync() // a device that loses its power now has the old file or the new one
	}
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(unfinished, target)
}

// makeDir makes a directory, and those above it, which all users may read whatever the umask says.
func makeDir(dir string) error {
	if isDir(dir) {
		return nil
	}
	if err := makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// remove removes a file that may not be there.
func (p place) remove(path string) error {
	if err := os.Remove(p.at(path)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
