package service

import (
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
}

// differs reports whether the file is missing or has another content.
func (p place) differs(f file) (bool, error) {
	if !isFile(p.at(f.path)) {
		return true, nil
	}
	raw, err := os.ReadFile(p.at(f.path))
	return string(raw) != f.content, err
}

// write puts the file into its place, whole or not at all.
func (p place) write(f file) (err error) {
	target := p.at(f.path)
	next := target + ".new"
	if err := makeDir(filepath.Dir(target)); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	_ = os.Remove(next) // of a run that was cut short
	defer func() {
		if err != nil {
			_ = os.Remove(next) // the error is about what kept it from being used
			err = fmt.Errorf("writing %s: %w", f.path, err)
		}
	}()
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
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
	return os.Rename(next, target)
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
