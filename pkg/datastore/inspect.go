package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
)

// errNoDatabase is wrapped by the errors about a data directory without a database.
var errNoDatabase = errors.New("there is no database")

// inspect opens the database of a data directory for reading, in one transaction, so that all statements see the same
// state. A running server can go on writing meanwhile.
func inspect(ctx context.Context, dir string, read func(*sql.Tx) error) error {
	path := sqlitePath(dir)
	if err := mustExist(path); err != nil {
		return err
	}
	return readSQLite(ctx, path, func(db *sql.DB) (err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // nothing was written
		return read(tx)
	})
}

// mustExist returns an error that says what to do if there is no database.
func mustExist(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && info.Size() == 0:
		return fmt.Errorf("%w %s: name the data directory of a reap server that keeps its objects in SQLite with --data-dir", errNoDatabase, path)
	case err != nil:
		return fmt.Errorf("looking at the database: %w", err)
	}
	return nil
}

// tableExists returns an error if the database is not one of an API server.
func tableExists(ctx context.Context, tx *sql.Tx, path string) error {
	var tables int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'kine'").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		return fmt.Errorf("%s holds nothing of a reap server: its table kine is missing", path)
	}
	return nil
}

// revisions returns the newest revision, and up to which one kine has compacted.
func revisions(ctx context.Context, tx *sql.Tx) (newest, compacted int64, err error) {
	const statement = "SELECT (SELECT max(id) FROM kine), (SELECT max(prev_revision) FROM kine WHERE name = '" + compactKey + "')"
	var n, c sql.NullInt64
	err = tx.QueryRowContext(ctx, statement).Scan(&n, &c)
	return n.Int64, c.Int64, err
}

// bookkeeping reports whether a name is one of kine's own rows, which are no keys.
func bookkeeping(name string) bool { return name == compactKey || strings.HasPrefix(name, "gap-") }
