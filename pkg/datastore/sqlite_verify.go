package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// verifyChunk is how many rows a statement of a check reads: a longer read would keep SQLite from starting its log anew.
const verifyChunk = 500

// verifySQLite is Store.Verify for the SQLite database of a data directory.
//
// PRAGMA integrity_check compares indexes and table too, but in one read of the whole file. Here every row of the table is looked
// up in both indexes, as a GET does, and every entry of the index of names leads to a row of its name.
func verifySQLite(ctx context.Context, dir string, progress func(done, all int64)) (c Checked, err error) {
	c.Path, c.Problems = sqlitePath(dir), []string{}
	err = readSQLite(ctx, c.Path, func(db *sql.DB) error {
		v := sqliteVerifier{c: &c, db: db, index: ourIndex, places: places{}, progress: progress}
		ours, err := hasIndex(ctx, db, ourIndex)
		if err != nil {
			return err
		}
		if !ours {
			v.index = kinesIndex
		}
		if err := v.table(ctx); err != nil {
			return err
		}
		return v.names(ctx)
	})
	return c.orUnreadable(ctx, err)
}

// verifyPages adds to a check which page is damaged. That is one read of the whole database, for which SQLite's log waits.
func verifyPages(ctx context.Context, c Checked) (Checked, error) {
	err := readSQLite(ctx, c.Path, func(db *sql.DB) error {
		var verdict string
		if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			c.problem("%s", strings.Join(strings.Fields(verdict), " "))
		}
		return nil
	})
	return c.orUnreadable(ctx, err)
}

// orUnreadable returns what a check has found, with an error of SQLite's that says that the database is damaged.
func (c Checked) orUnreadable(ctx context.Context, err error) (Checked, error) {
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if code, _, ok := sqliteCode(err); ok && (code&0xff == sqliteCorrupt || code&0xff == sqliteNotADB) {
		c.problem("it cannot be read: %v", err)
		return c, nil
	}
	return c, err
}

// sqliteVerifier checks an SQLite database in short reads.
type sqliteVerifier struct {
	c        *Checked
	db       *sql.DB
	index    string // of names and revisions
	places   places
	progress func(done, all int64)
}

// table reads the rows in the order of their revisions: their values, and whether both indexes lead to them.
func (v *sqliteVerifier) table(ctx context.Context) error {
	var newest, all sql.NullInt64
	if err := v.db.QueryRowContext(ctx, "SELECT max(id), (SELECT count(*) FROM kine) FROM kine").Scan(&newest, &all); err != nil {
		return err
	}
	statement := fmt.Sprintf(`SELECT t.id, t.name, t.deleted, t.value,
		EXISTS (SELECT 1 FROM kine AS i INDEXED BY %s WHERE i.name = t.name AND i.id = t.id AND i.deleted = t.deleted)
		AND EXISTS (SELECT 1 FROM kine AS p INDEXED BY kine_name_prev_revision_uindex WHERE p.name = t.name AND p.prev_revision = t.prev_revision AND p.id = t.id)
		FROM kine AS t NOT INDEXED WHERE t.id > ? AND t.id <= ? ORDER BY t.id LIMIT %d`, v.index, verifyChunk)
	for after, more := int64(0), true; more; {
		before := after
		err := v.read(statement, []any{after, newest.Int64}, func(rows *sql.Rows) error {
			var id int64
			var name sql.NullString
			var deleted sql.NullInt64
			var value sql.RawBytes // until the next row
			var indexed bool
			if err := rows.Scan(&id, &name, &deleted, &value, &indexed); err != nil {
				return err
			}
			after = id
			v.c.Rows++
			if !indexed {
				v.c.problem("revision %d, %q: an index does not lead to it", id, name.String)
			}
			if deleted.Int64 == 0 && !bookkeeping(name.String) {
				if what := v.places.wrong(name.String, value); what != "" {
					v.c.problem("revision %d, %q: %s", id, name.String, what)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading the rows behind revision %d: %w", after, err)
		}
		v.progress(min(v.c.Rows, all.Int64), 2*all.Int64)
		more = after > before
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// names reads the index of names in its order: whether each entry leads to a row of that name, and whether the revisions of each key
// build on each other.
func (v *sqliteVerifier) names(ctx context.Context) error {
	statement := fmt.Sprintf(`SELECT i.name, i.id, i.deleted, t.name, t.created, t.deleted, COALESCE(t.create_revision, 0), t.prev_revision, t.lease,
		COALESCE((SELECT max(prev_revision) FROM kine WHERE name = '%s'), 0)
		FROM kine AS i INDEXED BY %s LEFT JOIN kine AS t NOT INDEXED ON t.id = i.id
		WHERE (i.name, i.id) > (?, ?) ORDER BY i.name, i.id LIMIT %d`, compactKey, v.index, verifyChunk)
	var before kineRow
	entries := int64(0)
	for more := true; more; {
		first, from := true, before
		err := v.read(statement, []any{before.name, before.id}, func(rows *sql.Rows) error {
			var r kineRow
			var entry, name sql.NullString
			var flag, created, deleted, create, prev, lease sql.NullInt64
			var compacted int64
			if err := rows.Scan(&entry, &r.id, &flag, &name, &created, &deleted, &create, &prev, &lease, &compacted); err != nil {
				return err
			}
			r.name, r.created, r.deleted, r.create, r.prev, r.lease = entry.String, created.Int64, deleted.Int64, create.Int64, prev.Int64, lease.Int64
			r.whole = created.Valid && deleted.Valid && prev.Valid && lease.Valid
			entries++
			switch {
			case r.name < before.name || r.name == before.name && r.id <= before.id:
				return fmt.Errorf("%w behind %q, revision %d", errUnordered, before.name, before.id)
			case !name.Valid:
				v.c.problem("revision %d, %q: the index of names has it, and the table has not", r.id, r.name)
			case name.String != r.name || deleted != flag:
				v.c.problem("revision %d, %q: the index of names takes it for %q", r.id, name.String, r.name)
			default:
				chain := before
				if first && r.prev <= compacted && r.prev != before.id { // what was in between may be gone since the last read
					chain = kineRow{}
				}
				if what := r.wrong(chain, compacted); what != "" {
					v.c.problem("revision %d, %q: %s", r.id, r.name, what)
				}
			}
			if before.name != r.name && before.live() {
				v.c.Keys++
			}
			before, first = r, false
			return nil
		})
		if errors.Is(err, errUnordered) {
			v.c.problem("the index of names: %v", err)
			return nil // what comes behind cannot be found in it
		}
		if err != nil {
			return fmt.Errorf("reading the index of names behind %q: %w", before.name, err)
		}
		more = before.name != from.name || before.id != from.id
		v.progress(v.c.Rows+min(entries, v.c.Rows), 2*v.c.Rows)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if before.live() {
		v.c.Keys++
	}
	return nil
}

var errUnordered = errors.New("it is not in order")

// read calls each for the rows of a statement, which ends soon. Without a context the driver reads them on this thread.
func (v *sqliteVerifier) read(statement string, args []any, each func(*sql.Rows) error) (err error) {
	rows, err := v.db.QueryContext(context.Background(), statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
