package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// RaiseSQLite makes revision the newest one of the database of a data directory, which no server uses, and the one up to which it is
// compacted: the next write gets a later one, and a watch from an earlier one is told to list anew. Objects stay as they are.
func RaiseSQLite(ctx context.Context, dir string, revision int64) (err error) {
	path := sqlitePath(dir)
	if err := mustExist(path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("raising the revision of %s to %d: %w", path, revision, err)
		}
	}()
	db, err := sql.Open(sqliteDriver, path+"?"+parameters("full"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	newest, _, err := revisions(ctx, tx)
	if err != nil {
		return err
	}
	if newest >= revision {
		return fmt.Errorf("it is at revision %d", newest)
	}
	for _, s := range []struct {
		statement string
		args      []any
	}{
		// As kine compacts.
		{`DELETE FROM kine WHERE id IN (SELECT prev_revision FROM kine WHERE name != ? AND prev_revision != 0 UNION ALL SELECT id FROM kine WHERE deleted != 0)`, []any{compactKey}},
		{`DELETE FROM kine WHERE name = ?`, []any{compactKey}},
		{insertRow, []any{revision, compactKey, 1, 0, revision, 0, []byte{}}},
	} {
		if _, err := tx.ExecContext(ctx, s.statement, s.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
