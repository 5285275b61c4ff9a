package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// readRecord reads a file that writeRecord wrote, and reports whether it exists. An existing file counts even if its
// content cannot be parsed; content is then incomplete.
func readRecord(path string, content any) (found bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_ = json.Unmarshal(raw, content)
	return true, nil
}

// writeRecord replaces a file atomically by content as JSON, and returns when it is on the disk.
func writeRecord(path string, content any) error {
	raw, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return replaceSynced(path, append(raw, '\n'))
}

// replaceSynced replaces a file atomically, and returns when it is on the disk.
func replaceSynced(path string, raw []byte) error {
	next := path + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir writes the names in a directory to the disk, if its file system supports that.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some file systems refuse
	return d.Close()
}
