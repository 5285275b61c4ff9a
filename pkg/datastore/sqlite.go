package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// openSQLite makes sure that the database below dir can be opened and written,
// and returns kine's endpoint for it. kine itself would retry a file that is no
// database for five minutes.
func openSQLite(ctx context.Context, dir, synchronous string) (string, error) {
	path := filepath.Join(dir, "db", "state.db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the database directory: %w", err)
	}
	dsn := path + "?" + parameters(synchronous)
	if err := tryOpen(ctx, dsn); err != nil {
		return "", fmt.Errorf("opening the database %s: %w", path, err)
	}
	return "sqlite://" + dsn, nil
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

// parameters are kine's own defaults, which it applies only when it is given no
// endpoint at all, and two of ours: the synchronous level, and no VACUUM at every
// start, which would write the whole file to a device's flash.
func parameters(synchronous string) string {
	return strings.Join([]string{
		"_journal_mode=WAL",
		"_busy_timeout=30000",
		"_synchronous=" + strings.ToUpper(synchronous),
		"_txlock=immediate",
		"_stmt_cache_size=20",
		"cache=shared",
		"_kine_disable_startup_vacuum=true",
	}, "&")
}
