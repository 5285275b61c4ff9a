package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// CompactSQLite writes the database of a data directory anew, without free pages and with new indexes, and puts the new file into the old
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
	if err := mustNotDisagree(ctx, db); err != nil {
		return err
	}
	if err := copyTables(ctx, db, to); err != nil {
		return err
	}
	var want summary
	if err := want.read(ctx, db); err != nil {
		return err
	}
	return readSQLite(ctx, to, func(db *sql.DB) error {
		var verdict string
		if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
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

// copyTables copies the tables of a database into an empty file, and makes their indexes there from the copies. VACUUM would copy an
// index as it is, with what is broken in it.
func copyTables(ctx context.Context, db *sql.DB, to string) (err error) {
	if _, err := db.ExecContext(ctx, "ATTACH ? AS anew", to); err != nil {
		return err
	}
	defer func() {
		_, detachErr := db.ExecContext(context.WithoutCancel(ctx), "DETACH anew")
		err = errors.Join(err, detachErr)
	}()
	// A copy that is cut off is thrown away, and the caller syncs a whole one.
	for _, pragma := range []string{"PRAGMA anew.journal_mode = OFF", "PRAGMA anew.synchronous = OFF"} {
		if _, err := db.ExecContext(ctx, pragma); err != nil {
			return err
		}
	}
	tables, indexes, err := definitions(ctx, db)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	var statements []string
	for _, t := range tables {
		statements = append(statements, t.inside("anew"), fmt.Sprintf("INSERT INTO anew.%[1]q SELECT * FROM main.%[1]q NOT INDEXED", t.name))
	}
	for _, i := range indexes {
		statements = append(statements, i.inside("anew"))
	}
	// The highest revision that was ever given out, also if its row is gone.
	statements = append(statements, "DELETE FROM anew.sqlite_sequence", "INSERT INTO anew.sqlite_sequence SELECT * FROM main.sqlite_sequence")
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return errors.Join(twins(ctx, tx), err)
		}
	}
	return tx.Commit()
}

// mustNotDisagree returns an error if the index of names has a row as an object that the table has as a deletion: which of the two is
// damaged cannot be told, and a copy would have the table's word alone. Behind an entry that cannot be read nothing is compared.
func mustNotDisagree(ctx context.Context, db *sql.DB) error {
	index := ourIndex
	if ours, err := hasIndex(ctx, db, ourIndex); err != nil {
		return err
	} else if !ours {
		index = kinesIndex
	}
	var name string
	var revision int64
	err := db.QueryRowContext(ctx, fmt.Sprintf(`SELECT i.name, i.id FROM kine AS i INDEXED BY %s JOIN kine AS t NOT INDEXED ON t.id = i.id
		WHERE i.name = t.name AND i.deleted = 0 AND t.deleted != 0 LIMIT 1`, index)).Scan(&name, &revision)
	if err != nil {
		return ctx.Err() // also if there is none
	}
	return fmt.Errorf("revision %d of %q is a deletion, and an object according to the index of names: restore a snapshot with 'reap snapshot restore'", revision, name)
}

// twins returns an error that names a key with two rows in one place, nil if there is none: a server that ran on a broken index may have
// created the key once more. Which of the two its clients mean cannot be told.
func twins(ctx context.Context, tx *sql.Tx) error {
	var name string
	err := tx.QueryRowContext(ctx, "SELECT name FROM anew.kine GROUP BY name, prev_revision HAVING count(*) > 1 LIMIT 1").Scan(&name)
	if err != nil {
		return nil // the caller has an error already
	}
	return fmt.Errorf("%q was written twice in the same place, as by a server that ran on a broken index: restore a snapshot with 'reap snapshot restore'", name)
}

// definition is what SQLite's schema says of a table or an index.
type definition struct{ kind, name, sql string }

// inside returns the statement that makes it in an attached database.
func (d definition) inside(database string) string {
	_, rest, _ := strings.Cut(d.sql, d.kind) // SQLite writes "CREATE TABLE name" and "CREATE [UNIQUE] INDEX name", in capitals
	head := strings.TrimSuffix(d.sql, d.kind+rest)
	return head + d.kind + " " + database + "." + strings.TrimSpace(rest)
}

// definitions returns the tables and the indexes that have statements; SQLite makes the others itself.
func definitions(ctx context.Context, db *sql.DB) (tables, indexes []definition, err error) {
	rows, err := db.QueryContext(ctx, "SELECT upper(type), name, sql FROM main.sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d definition
		if err := rows.Scan(&d.kind, &d.name, &d.sql); err != nil {
			return nil, nil, err
		}
		if d.kind == "TABLE" {
			tables = append(tables, d)
		} else {
			indexes = append(indexes, d)
		}
	}
	return tables, indexes, rows.Err()
}

// summary is what a copy of a database must share with it.
type summary struct{ Rows, Newest, Next int64 }

func (s *summary) read(ctx context.Context, db *sql.DB) error {
	return db.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM kine NOT INDEXED), (SELECT ifnull(max(id), 0) FROM kine), "+
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
