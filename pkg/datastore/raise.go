package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// RaiseSQLite makes revision the newest one of the database of a data directory, which no server uses, and the one up to which it is
// compacted: the next write gets a later one, and a watch from an earlier one is told to list anew. Objects stay as they are. A damaged
// database is left as it is.
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
	c, err := verifySQLite(ctx, dir, func(int64, int64) {})
	if err == nil && len(c.Problems) > 0 {
		err = fmt.Errorf("it is damaged: %s; 'reap db check' says all that is wrong", c.Problems[0])
	}
	if err != nil {
		return err
	}
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
		// As a running server compacts.
		{`DELETE FROM kine WHERE id IN (
			SELECT old.id FROM kine AS new JOIN kine AS old ON old.id = new.prev_revision AND old.name = new.name WHERE new.name != ?
			UNION ALL
			SELECT id FROM kine WHERE deleted != 0)`, []any{compactKey}},
		{`DELETE FROM kine WHERE name = ?`, []any{compactKey}},
		{insertRow, []any{revision, compactKey, 1, 0, revision, 0, []byte{}}},
	} {
		if _, err := tx.ExecContext(ctx, s.statement, s.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}
