package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
)

// Compacted is the result of CompactSQLite. Its fields are stable.
type Compacted struct {
	Path string `json:"path"`
	// Before and After are sizes in bytes; Before includes the log.
	Before int64 `json:"bytesBefore"`
	After  int64 `json:"bytesAfter"`
}

// showEvery is how often a compaction looks how far it has come.
const showEvery = 200 * time.Millisecond

// CompactSQLite writes the database of a data directory anew, without free pages, and puts the new file into the old
// one's place once it is complete, checked and on the disk. If it is interrupted, the old file stays. The caller makes
// sure that no server uses the data directory.
func CompactSQLite(ctx context.Context, dir string, progress func(done, all int64)) (c Compacted, err error) {
	c.Path = sqlitePath(dir)
	if err := mustExist(c.Path); err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("compacting the database %s: %w; the database is as it was", c.Path, err)
		}
	}()
	if err := mustHaveRoom(filepath.Dir(c.Path), 0); err != nil { // even reading takes some
		return c, err
	}
	if err := usableSQLite(ctx, dir); err != nil {
		return c, err
	}
	before, err := sizes(c.Path)
	if err != nil {
		return c, err
	}
	for _, f := range before {
		if f.Name != c.Path+"-shm" {
			c.Before += f.Bytes
		}
	}
	next := c.Path + ".compacting"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) { // of one that was interrupted
		return c, err
	}
	if err := likeFile(next, c.Path); err != nil {
		return c, err
	}
	defer func() {
		if removeErr := os.Remove(next); removeErr != nil && !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	if err := writeAnew(ctx, c.Path, next, progress); err != nil {
		return c, err
	}
	// A log that is left would be taken for the new file's.
	if info, err := os.Stat(c.Path + "-wal"); err == nil && info.Size() > 0 {
		return c, errors.New("its log cannot be taken in; does another process use it?")
	}
	if err := syncFile(next); err != nil {
		return c, err
	}
	info, err := os.Stat(next)
	if err != nil {
		return c, err
	}
	c.After = info.Size()
	if err := os.Rename(next, c.Path); err != nil {
		return c, err
	}
	return c, syncFile(filepath.Dir(c.Path))
}

// usableSQLite returns an error if the database of a data directory, or its log, is damaged.
func usableSQLite(ctx context.Context, dir string) error {
	if _, err := CheckSQLite(ctx, dir); err != nil {
		return err
	}
	log, err := readWAL(sqlitePath(dir))
	if err != nil {
		return err
	}
	if log.brokenOff() {
		return errors.New("its log is damaged; 'reap db check' says how")
	}
	return nil
}

// likeFile makes an empty file with the owner and the mode of another one: root may compact the database of a server
// that runs as another user.
func likeFile(path, model string) error {
	info, err := os.Stat(model)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		err = f.Chown(int(s.Uid), int(s.Gid))
	}
	return errors.Join(err, f.Close())
}

// writeAnew copies a database into an empty file, and makes sure that the copy is whole.
func writeAnew(ctx context.Context, from, to string, progress func(done, all int64)) (err error) {
	db, err := sql.Open(sqliteDriver, from+"?"+parameters("full"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }() // takes the log in
	db.SetMaxOpenConns(1)
	var size int64
	if err := db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()").Scan(&size); err != nil {
		return err
	}
	if err := mustHaveRoom(filepath.Dir(from), size); err != nil {
		return err
	}
	done := make(chan struct{})
	defer func() { <-done }()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(done)
		tick := time.NewTicker(showEvery)
		defer tick.Stop()
		for {
			select {
			case <-writing.Done():
				return
			case <-tick.C:
				if info, err := os.Stat(to); err == nil {
					progress(min(info.Size(), size), size)
				}
			}
		}
	}()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return err
	}
	var want summary
	if err := want.read(ctx, db); err != nil {
		return err
	}
	return readSQLite(ctx, to, func(db *sql.DB) error {
		var verdict string
		if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return fmt.Errorf("checking the new file: %s", verdict)
		}
		var got summary
		if err := got.read(ctx, db); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("the new file has %+v, the old one %+v", got, want)
		}
		return nil
	})
}

// summary is what a copy of a database must share with it.
type summary struct{ Rows, Newest, Next int64 }

func (s *summary) read(ctx context.Context, db *sql.DB) error {
	return db.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM kine), (SELECT ifnull(max(id), 0) FROM kine), "+
		"(SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'kine')").Scan(&s.Rows, &s.Newest, &s.Next)
}

// mustHaveRoom returns an error unless a file system has room for so many bytes and a little more.
func mustHaveRoom(dir string, bytes int64) error {
	if free, known := freeOn(dir); known && free < bytes+room {
		return fmt.Errorf("the disk of %s has %s free, and the new file takes %s beside the old one: free space there, or lend it that of the reserve by removing %s, which the next start makes anew",
			dir, humanize.Bytes(uint64(free)), humanize.Bytes(uint64(bytes+room)), filepath.Join(dir, "reserve"))
	}
	return nil
}
