package datastore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserve is a file that only takes room, which it gives up when the disk is full: a deletion has to be written down
// before it can free anything.
type reserve struct {
	path string
	size int64 // 0: there is none
}

// missing returns how much room the reserve needs to be whole again.
func (r *reserve) missing() int64 {
	info, err := os.Stat(r.path)
	if err != nil {
		return r.size
	}
	return max(0, r.size-info.Size())
}

// hold makes the reserve unless it is there, with so much room.
func (r *reserve) hold(size int64) (err error) {
	if size == 0 {
		return r.release() // of an earlier start
	}
	if info, err := os.Stat(r.path); err == nil && info.Size() == size {
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.release())
		}
	}()
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the reserve: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := allocate(f, size); err != nil {
		return fmt.Errorf("making the reserve %s: %w", r.path, err)
	}
	return nil
}

// release gives the room to whoever writes next.
func (r *reserve) release() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// allocate makes f take size bytes on the disk. Some file systems can only do that by being written to.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	block := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(block)) {
		if _, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// writeAndSync writes a small file, waits until it is on the disk, and removes it.
func writeAndSync(path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return err
	}
	return f.Sync()
}
