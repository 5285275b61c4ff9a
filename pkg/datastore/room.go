package datastore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// freeOn returns how many bytes the file system of a directory has for us.
func freeOn(dir string) (bytes int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true // Bsize is an int32 on arm
}

// MakeRoom looks whether the disk of a data directory has room for a start: even reading a database takes some. If it
// has hardly any, the reserve of an earlier run is given up, and full is true: see Options.Full. Without a reserve that
// is an error.
func MakeRoom(dir, endpoint string) (full bool, err error) {
	free, known := freeOn(dir)
	if !known || free >= room {
		return false, nil
	}
	r := reserve{path: filepath.Join(FilesIn(dir, endpoint), "reserve")}
	if _, err := os.Stat(r.path); err == nil {
		if err := r.release(); err != nil {
			return false, fmt.Errorf("the disk of %s is full, and the reserve cannot be removed: %w", dir, err)
		}
		logrus.WithField("directory", dir).Error("the disk is full; the server starts with the room of the reserve, and refuses writes until there is more, but for deletions")
		return true, nil
	}
	if free < scarce {
		return false, noRoom(dir, nil)
	}
	return false, nil
}

// FilesIn returns the folder of an engine's files in a data directory.
func FilesIn(dir, engine string) string {
	if engine == Etcd {
		return etcdDir(dir)
	}
	return filepath.Dir(sqlitePath(dir))
}

// noRoom is the error of a start without any room.
func noRoom(dir string, err error) error {
	free, _ := freeOn(dir)
	text := fmt.Sprintf("the disk of %s is full (%s free): free space there, then start again; nothing is lost", dir, humanize.Bytes(uint64(free)))
	if err != nil {
		return fmt.Errorf("%s (%w)", text, err)
	}
	return errors.New(text)
}

// ExplainFull returns err, or if a start has failed with it for lack of room, an error that says so.
func ExplainFull(dir string, err error) error {
	if err == nil {
		return nil
	}
	free, known := freeOn(dir)
	if kind, ok := troubleOf(err); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || ok && kind == full || ok && known && free < scarce {
		return noRoom(dir, err)
	}
	return err
}
