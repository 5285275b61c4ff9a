package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// mayWrite returns an error if there is a file already, unless force allows to replace it, or anything that is no file.
func mayWrite(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file: name another, or - for standard output", path)
	case !force:
		return fmt.Errorf("%s is there already: name another, or replace it with --force", path)
	}
	return nil
}

// writeNewFile writes a file that only its owner may read, and that appears when all of it is on the disk.
func writeNewFile(path string, force bool, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	out := bufio.NewWriterSize(f, 64<<10)
	if err = write(out); err == nil {
		err = errors.Join(out.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := mayWrite(path, force); err != nil { // it may have come meanwhile
		return err
	}
	return os.Rename(f.Name(), path)
}
