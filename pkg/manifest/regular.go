package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// MaxSize is the largest file of manifests that is read.
const MaxSize = 256 << 20

// CheckFile returns an error unless path is a regular file, or a link to one, of at most MaxSize bytes. Opening a FIFO or reading
// a device could block for ever.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("reading manifests: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("reading manifests: %s is not a regular file; - reads standard input", path)
	case info.Size() > MaxSize:
		return fmt.Errorf("reading manifests: %s has more than %d MiB; split it", path, MaxSize>>20)
	}
	return nil
}

// readRegular reads a file that CheckFile takes. It stops at MaxSize if the file grows meanwhile.
func readRegular(path string) ([]byte, error) {
	if err := CheckFile(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("reading manifests: %s has grown beyond %d bytes", path, MaxSize)
	}
	return raw, nil
}

// WithoutContent cuts the document out of a decoder's error: it may be a Secret.
func WithoutContent(err error) error {
	if err == nil {
		return nil
	}
	if before, _, cut := strings.Cut(err.Error(), " is missing in '"); cut {
		return errors.New(before + " is missing")
	}
	return err
}
