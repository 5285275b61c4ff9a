package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/query"
	"github.com/sirupsen/logrus"
)

const (
	// kinesIndex has names and revisions.
	kinesIndex = "kine_name_id_index"
	// ourIndex says of each revision also whether it deletes its key: whoever counts keys reads no row. It has a name of its own, since older
	// builds, and kine, make kinesIndex if there is none, and name it in statements.
	ourIndex = "kine_name_id_deleted_index"
	// indexWithin bounds how long a start makes ourIndex of a table that has kinesIndex. 100,000 rows take about a second.
	indexWithin = 20 * time.Second
)

// makeIndex puts ourIndex in the place of kinesIndex and returns which of them the table has. A table that is too large for its disk, or
// for the time, keeps kinesIndex until a later start: with it a server only counts more slowly.
func makeIndex(ctx context.Context, db *sql.DB, d *disk, within time.Duration) (index string, err error) {
	kines, err := hasIndex(ctx, db, kinesIndex)
	if err != nil {
		return "", err
	}
	if !kines {
		_, err := db.ExecContext(ctx, "CREATE INDEX IF NOT EXISTS "+ourIndex+" ON kine (name, id, deleted)")
		return ourIndex, err
	}
	began := time.Now()
	if err := replaceIndex(ctx, db, d, within); err != nil {
		logrus.WithError(err).Warn("the database keeps kine's index of names: keys are counted more slowly")
		return kinesIndex, nil
	}
	logrus.WithField("took", time.Since(began).Round(time.Millisecond)).Info("the database's index of names has been replaced: keys are counted faster")
	return ourIndex, nil
}

func hasIndex(ctx context.Context, db *sql.DB, name string) (has bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = ?", name).Scan(&has)
	return has, err
}

// replaceIndex leaves kinesIndex in place if it fails.
func replaceIndex(ctx context.Context, db *sql.DB, d *disk, within time.Duration) (err error) {
	limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("making the index takes longer than %s", within))
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, context.Cause(limited)) // SQLite's own error of it is "interrupted", if it is told at all
		}
	}()
	var size int64
	if err := db.QueryRowContext(limited, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").Scan(&size); err != nil {
		return err
	}
	// The index is a small part of the file. SQLite sorts it in a temporary file, and the log has it until it is taken in.
	if free, known := d.free(); known && free < size+room {
		return fmt.Errorf("%s of the disk are free, and the database has %s: it may take as much again for a moment",
			humanize.IBytes(uint64(free)), humanize.IBytes(uint64(size)))
	}
	tx, err := db.BeginTx(limited, nil)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"DROP INDEX " + kinesIndex, // first: the other one takes its pages
		"CREATE INDEX IF NOT EXISTS " + ourIndex + " ON kine (name, id, deleted)",
	} {
		if _, err := tx.ExecContext(limited, statement); err != nil {
			_ = tx.Rollback() // SQLite may have done so
			return err
		}
	}
	return tx.Commit()
}

// cheapCounts replaces kine's statements for counts, which look for the row of each key, anywhere in the file, to see whether it is a deletion.
func cheapCounts(statements *generic.Generic) {
	count := func(name, revisions, where string) *query.Named {
		// Of each name SQLite takes deleted from where it finds MAX(id).
		return query.New(fmt.Sprintf(`SELECT %s, COUNT(mkv.id)
			FROM (SELECT MAX(id) AS id, deleted FROM kine INDEXED BY %s %s GROUP BY name) AS mkv
			WHERE mkv.deleted = 0 OR ?`, revisions, ourIndex, where), "?", false, name)
	}
	now := "(" + generic.CurrentRevSQL + ")"
	compacted := "(" + generic.CompactRevSQL + ")"
	statements.CountCurrentSQL = count("CountCurrent", now, "WHERE name >= ? AND name < ?")
	statements.CountRevisionSQL = count("CountRevision", now+", "+compacted, "WHERE name >= ? AND name < ? AND id <= ?")
	statements.CountAllCurrentSQL = count("CountAllCurrent", now, "")
	statements.CountAllRevisionSQL = count("CountAllRevision", now+", "+compacted, "WHERE id <= ?")
}
