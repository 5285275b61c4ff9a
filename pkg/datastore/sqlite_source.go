package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// sqliteSource reads the database of a data directory, in one transaction. It changes nothing. A server could go on writing
// meanwhile, but its log could not be taken in as long as somebody reads.
type sqliteSource struct{ dir string }

var _ dump.Source = sqliteSource{}

// liveRows are the rows that are keys: the newest of each name, unless that is its deletion. The range leaves out kine's
// own rows.
const liveRows = `FROM kine AS kv WHERE kv.name >= '/' AND kv.name < '0' AND kv.deleted = 0
	AND kv.id = (SELECT max(same.id) FROM kine AS same WHERE same.name = kv.name)`

// Read implements dump.Source.
func (s sqliteSource) Read(ctx context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	return s.inspect(ctx, func(tx *sql.Tx) (err error) {
		var head dump.Head
		if head.Revision, _, err = revisions(ctx, tx); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT count(*) "+liveRows).Scan(&head.Keys); err != nil {
			return err
		}
		if err := begin(head); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT id, name, created, COALESCE(create_revision, 0), COALESCE(lease, 0), value "+liveRows+" ORDER BY kv.name")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		read := int64(0)
		for ; rows.Next(); read++ {
			var r dump.Record
			var created bool
			var seconds int64
			if err := rows.Scan(&r.ModRevision, &r.Key, &created, &r.CreateRevision, &seconds, &r.Value); err != nil {
				return err
			}
			if created {
				r.CreateRevision = r.ModRevision
			}
			r.TTL = time.Duration(seconds) * time.Second // kine has no leases: it counts anew from each start
			if err := each(r); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if read != head.Keys {
			return fmt.Errorf("it counts %d keys and has shown %d", head.Keys, read)
		}
		return nil
	})
}

// bytes returns how large the keys and values are together.
func (s sqliteSource) bytes(ctx context.Context) (bytes int64, err error) {
	err = s.inspect(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COALESCE(sum(length(kv.name) + COALESCE(length(kv.value), 0)), 0) "+liveRows).Scan(&bytes)
	})
	return bytes, err
}

// inspect reads the database if it is one of a server.
func (s sqliteSource) inspect(ctx context.Context, read func(*sql.Tx) error) error {
	return inspect(ctx, s.dir, func(tx *sql.Tx) error {
		if err := tableExists(ctx, tx, sqlitePath(s.dir)); err != nil {
			return err
		}
		return read(tx)
	})
}
