package server

import (
	"context"
	"fmt"
	"io"
	"os"
)

// twice returns what can be read twice. An input that cannot, as a pipe, is copied into a file that has no name any more, on the data
// directory's disk if there is one yet. forget removes the copy.
func twice(ctx context.Context, in io.Reader, dataDir string) (out io.ReadSeeker, forget func(), err error) {
	if s, ok := in.(io.ReadSeeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil && at == 0 {
			return s, func() {}, nil
		}
	}
	if there, err := exists(dataDir); err != nil || !there {
		dataDir = "" // that for temporary files
	}
	f, err := os.CreateTemp(dataDir, ".snapshot-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a file for the snapshot that comes: %w", err)
	}
	forget = func() { _ = f.Close() } // the file has no name any more
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.Copy(f, untilEnd{ctx, in})
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("keeping the snapshot that comes: %w", err)
	}
	return f, forget, nil
}

// untilEnd is a reader that ends with ctx.
type untilEnd struct {
	ctx context.Context
	io.Reader
}

func (u untilEnd) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}
