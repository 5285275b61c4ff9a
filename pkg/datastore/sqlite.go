package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// openSQLite makes sure that the database below dir can be opened and written,
// and returns kine's endpoint for it. kine itself would retry a file that is no
// database for five minutes.
func openSQLite(ctx context.Context, dir, synchronous string) (string, error) {
	path := sqlitePath(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the database directory: %w", err)
	}
	dsn := path + "?" + parameters(synchronous)
	if err := tryOpen(ctx, dsn); err != nil {
		return "", fmt.Errorf("opening the database %s: %w", path, err)
	}
	return "sqlite://" + dsn, nil
}

// sqlitePath is the database of a data directory.
func sqlitePath(dir string) string { return filepath.Join(dir, "db", "state.db") }

// CheckSQLite looks at the database of a data directory before anything opens it to write. A damaged one is an error.
// empty is true if there is none, or one that holds nothing of an API server. Nothing is changed, and no log is lost by
// looking.
func CheckSQLite(ctx context.Context, dir string) (empty bool, err error) {
	empty, _, err = CheckSQLiteWithin(ctx, dir, QuickCheck)
	return empty, err
}

// CheckSQLiteWithin is CheckSQLite that looks at pages for so long. pages is true if that was time enough for all of them. Otherwise
// Options.CheckPages has Store.Verify do it: a page that is free as well as in use is whole until something is written to it.
func CheckSQLiteWithin(ctx context.Context, dir string, within time.Duration) (empty, pages bool, err error) {
	path := sqlitePath(dir)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, true, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("looking at the database: %w", err)
	}
	if info.Size() == 0 {
		return true, true, nil
	}
	err = readSQLite(ctx, path, func(db *sql.DB) error {
		log, err := readWAL(path)
		if err != nil {
			return err
		}
		if log.headerDamaged {
			return errLogHeader
		}
		if pages, err = quickCheck(ctx, db, within); err != nil {
			return err
		}
		var tables, keys int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'kine'").Scan(&tables); err != nil {
			return err
		}
		if tables > 0 {
			const any = "SELECT count(*) FROM (SELECT 1 FROM kine WHERE name > '/registry/' AND name < '/registry0' AND name != '/registry/health' LIMIT 1)"
			if err := db.QueryRowContext(ctx, any).Scan(&keys); err != nil {
				return err
			}
		}
		if tables == 0 {
			const others = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`
			if err := db.QueryRowContext(ctx, others).Scan(&tables); err != nil {
				return err
			}
			if tables > 0 {
				return errOthers
			}
		}
		empty = keys == 0
		return nil
	})
	if err != nil {
		return false, false, fmt.Errorf("the database %s cannot be used: %w; nothing was changed: if it is damaged, restore a "+
			"snapshot with 'reap snapshot restore', which keeps what is there", path, err)
	}
	return empty, pages, nil
}

// errOthers is the error of a database that some other program uses.
var errOthers = errors.New("it has tables, and none that a reap server makes: move it away, or choose another directory with --data-dir")

// errLogHeader is the error of a log that SQLite would leave out as a whole.
var errLogHeader = errors.New("the header of its log is damaged")

// QuickCheck bounds how long a start looks for damage. A large database on a slow card takes longer to read, and
// is looked at as far as that goes.
const QuickCheck = 5 * time.Second

// quickCheck asks SQLite whether its pages fit each other. all is false if there was no time for all of them.
func quickCheck(ctx context.Context, db *sql.DB, within time.Duration) (all bool, err error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var verdict string
	err = db.QueryRowContext(limited, "PRAGMA quick_check(1)").Scan(&verdict)
	switch {
	case limited.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, err
	case verdict != "ok":
		return false, errors.New(strings.Join(strings.Fields(verdict), " "))
	}
	return true, nil
}

// SQLiteRevision returns the latest revision in the database of a data directory; 0 if there is none.
func SQLiteRevision(ctx context.Context, dir string) (revision int64, err error) {
	path := sqlitePath(dir)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	err = readSQLite(ctx, path, func(db *sql.DB) error {
		var n sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT max(id) FROM kine").Scan(&n)
		revision = n.Int64
		return err
	})
	return revision, err
}

// SyncSQLite returns when all that the database of a data directory holds is on the disk, if there is one; this process may be using it.
// It leaves the syncing to SQLite: a file that is opened and closed beside it takes the locks of the process with it (POSIX's fcntl), and another
// program would take itself for the only user, and remove the log.
func SyncSQLite(ctx context.Context, dir string) (err error) {
	path := sqlitePath(dir)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("syncing the database: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("syncing the database %s: %w", path, err)
		}
	}()
	db, err := sql.Open(sqliteDriver, path+"?"+parameters("full"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// It syncs the log, and what it copies from there into the database.
	if _, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		return err
	}
	return syncFile(filepath.Dir(path))
}

// readSQLite opens a database that must not change, not even by taking its log in. There is one exception: if the power
// was cut while the database was made, before it had a log, it can only be read once SQLite has rolled that back.
func readSQLite(ctx context.Context, path string, read func(*sql.DB) error) (err error) {
	mode := "ro"
	if _, err := os.Stat(path + "-journal"); err == nil {
		mode = "rw"
	}
	db, err := sql.Open(sqliteDriver, (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "mode=" + mode + "&_busy_timeout=30000"}).String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	return errors.Join(ctx.Err(), read(db))
}

func tryOpen(ctx context.Context, dsn string) (err error) {
	db, err := sql.Open(sqliteDriver, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// Reads the header and the schema, and takes the write lock, without changing
	// anything.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	var tables int
	return tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables)
}

// busyTimeout is how long SQLite waits for a lock.
const busyTimeout = 30 * time.Second

// parameters are kine's own defaults, which it applies only when it is given no
// endpoint at all, and two of ours: the synchronous level, and no VACUUM at every
// start, which would write the whole file to a device's flash.
func parameters(synchronous string) string {
	return strings.Join([]string{
		"_journal_mode=WAL",
		"_busy_timeout=" + strconv.FormatInt(busyTimeout.Milliseconds(), 10),
		"_synchronous=" + strings.ToUpper(synchronous),
		"_txlock=immediate",
		"_stmt_cache_size=20",
		"cache=shared",
		"_kine_disable_startup_vacuum=true",
	}, "&")
}
