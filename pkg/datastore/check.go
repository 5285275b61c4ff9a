package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Checked is the result of CheckWholeSQLite. Its fields are stable.
type Checked struct {
	Path string `json:"path"`
	// Rows and Keys have been checked. They are 0 if the database could not be read.
	Rows int64 `json:"rows"`
	Keys int64 `json:"keys"`
	// Problems are what is wrong, and Further how many more there are.
	Problems []string `json:"problems"`
	Further  int64    `json:"furtherProblems,omitempty"`
}

// problemsShown is how many problems are told one by one.
const problemsShown = 20

func (c *Checked) problem(format string, args ...any) {
	if len(c.Problems) == problemsShown {
		c.Further++
		return
	}
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// CheckWholeSQLite reads all of the database of a data directory: its log, its pages and indexes, the rows that kine has
// made of keys and revisions, and the values. It changes nothing. A damaged database is no error. Progress is called
// with the rows read and those that there are.
//
// SQLite keeps no checksums of its pages: damage inside a value may leave a value that decodes, and has the name that its key has.
func CheckWholeSQLite(ctx context.Context, dir string, progress func(done, all int64)) (c Checked, err error) {
	c.Path, c.Problems = sqlitePath(dir), []string{}
	if err := mustExist(c.Path); err != nil {
		return c, err
	}
	log, err := readWAL(c.Path)
	if err != nil {
		return c, err
	}
	switch {
	case log.headerDamaged:
		c.problem("the header of the log %s-wal is damaged: SQLite would leave out all that is in it", c.Path)
	case log.brokenOff():
		c.problem("the log %s-wal is damaged behind its frame %d: SQLite will leave out %d whole transactions", c.Path, log.usable, log.cutOff)
	}
	progress(0, 1) // SQLite does not tell how far it is with the pages
	err = inspect(ctx, dir, func(tx *sql.Tx) error {
		if err := c.pages(ctx, tx); err != nil {
			return err
		}
		if err := tableExists(ctx, tx, c.Path); err != nil {
			return err
		}
		return c.rows(ctx, tx, progress)
	})
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if err == nil {
		return c, nil
	}
	// What SQLite says of a file that it cannot read is a problem of the file, unless it could not be opened.
	if code, _, ok := sqliteCode(err); ok && (code&0xff == sqliteCantOpen || code&0xff == sqliteReadOnly) {
		return c, fmt.Errorf("opening the database %s: %w", c.Path, err)
	}
	c.problem("it cannot be read: %v", err)
	return c, nil
}

// pages asks SQLite whether its pages and indexes fit each other.
func (c *Checked) pages(ctx context.Context, tx *sql.Tx) (err error) {
	rows, err := tx.QueryContext(ctx, "PRAGMA integrity_check")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var verdict string
		if err := rows.Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			c.problem("%s", strings.Join(strings.Fields(verdict), " "))
		}
	}
	return rows.Err()
}

// kineRow is a row of kine's table.
type kineRow struct {
	id               int64
	name             string
	created, deleted int64
	create, prev     int64
	lease            int64 // in seconds; 0 for none
	value            []byte
	whole            bool // none of the numbers that kine writes into every row is missing
}

// rows goes through all rows, those of a key one after the other.
func (c *Checked) rows(ctx context.Context, tx *sql.Tx, progress func(done, all int64)) (err error) {
	newest, compacted, err := revisions(ctx, tx)
	if err != nil {
		return err
	}
	if compacted > newest {
		c.problem("it is compacted up to revision %d, and its newest is %d", compacted, newest)
	}
	var given sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT max(seq) FROM sqlite_sequence WHERE name = 'kine'").Scan(&given); err != nil {
		return err
	}
	if given.Int64 < newest {
		c.problem("its newest revision is %d, and it says that it has given out %d: revisions would be given out again", newest, given.Int64)
	}
	var all int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM kine").Scan(&all); err != nil {
		return err
	}
	const statement = "SELECT id, name, created, deleted, COALESCE(create_revision, 0), prev_revision, lease, value FROM kine ORDER BY name, id"
	rows, err := tx.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var before kineRow
	places := places{}
	for rows.Next() {
		var r kineRow
		var name sql.NullString
		var created, deleted, create, prev, lease sql.NullInt64
		var value sql.RawBytes // until the next row
		if err := rows.Scan(&r.id, &name, &created, &deleted, &create, &prev, &lease, &value); err != nil {
			c.problem("a row behind revision %d: %v", before.id, err)
			return nil
		}
		r.name, r.created, r.deleted, r.create, r.prev, r.value = name.String, created.Int64, deleted.Int64, create.Int64, prev.Int64, value
		r.lease = lease.Int64
		r.whole = created.Valid && deleted.Valid && prev.Valid && lease.Valid
		c.Rows++
		progress(c.Rows, all)
		what := r.wrong(before, compacted)
		if what == "" && r.deleted == 0 && !bookkeeping(r.name) {
			what = places.wrong(r.name, r.value)
		}
		if what != "" {
			c.problem("revision %d, %q: %s", r.id, r.name, what)
		}
		if before.name != r.name && before.live() {
			c.Keys++
		}
		r.value = nil // it is gone with the next row
		before = r
	}
	if before.live() {
		c.Keys++
	}
	return rows.Err()
}

// live reports whether a key exists whose newest row this is.
func (r kineRow) live() bool { return r.name != "" && r.deleted == 0 && !bookkeeping(r.name) }

// wrong says what is wrong with a row but for its value; "" is nothing. before is the row in front of it, by name and revision.
func (r kineRow) wrong(before kineRow, compacted int64) string {
	switch {
	case r.name == "":
		return "it has no name"
	case r.id <= 0:
		return "revisions begin at 1"
	case !r.whole:
		return "a number is missing"
	case bookkeeping(r.name):
		return ""
	case r.created&^1 != 0 || r.deleted&^1 != 0 || r.created+r.deleted > 1:
		return "it is no creation, change or deletion"
	case r.prev < 0 || r.prev >= r.id || r.create < 0 || r.create >= r.id:
		return fmt.Sprintf("it builds on a later revision: %d, created at %d", r.prev, r.create)
	case r.lease < 0 || r.lease > 0 && !mayExpire(r.name):
		return fmt.Sprintf("it has a lease of %d seconds, and a key of its kind has none", r.lease)
	}
	first, change := before.name != r.name, r.created+r.deleted == 0
	switch {
	case change && r.create == 0 || r.created == 1 && r.create > 0: // a deletion says it since kine v0.17
		return "a change says when its key was created, and a creation does not"
	case first && r.id > compacted && (r.prev > compacted || change):
		return fmt.Sprintf("it builds on revision %d, which is missing", r.prev)
	case first:
	case r.prev != before.id:
		return fmt.Sprintf("it builds on revision %d, and the one before it is %d", r.prev, before.id)
	case (r.created == 1) != (before.deleted == 1):
		return fmt.Sprintf("it does not fit revision %d of the same key: a key is created when there is none", before.id)
	case r.create > 0 && r.create != before.createdAt():
		return fmt.Sprintf("it was created at revision %d, and at %d according to revision %d", r.create, before.createdAt(), before.id)
	}
	return ""
}

// createdAt is the revision at which the key was created.
func (r kineRow) createdAt() int64 {
	if r.created == 1 {
		return r.id
	}
	return r.create
}
