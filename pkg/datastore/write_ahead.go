package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// longLog is how many bytes SQLite's log may have before writes wait for it to be taken in.
	longLog = 64 << 20
	// hugeLog is how many it may have before they wait for busyTimeout.
	hugeLog = 8 * longLog
	// readsWithin is how long writes wait for the reads that keep a long log from being taken in.
	readsWithin = 500 * time.Millisecond
)

// writeAhead keeps SQLite's log from growing for ever. SQLite takes it into the database every thousand pages, but begins it anew only in a
// moment without reads: clients that always read would fill the disk.
type writeAhead struct {
	database *sql.DB
	path     string
	long     int64 // bytes; see longLog
	tryAt    int64 // how long the log is when it is tried again; whoever has the turn to write may use it
}

func newWriteAhead(database *sql.DB, path string) *writeAhead {
	return &writeAhead{database: database, path: path + "-wal", long: longLog}
}

// keepShort begins a long log anew. Nobody may write meanwhile; those who begin to read then read the database itself, and wait for nothing.
func (w *writeAhead) keepShort(ctx context.Context) {
	if w == nil {
		return
	}
	size := w.size()
	if size < w.long {
		w.tryAt = 0
	}
	if size < max(w.long, w.tryAt) {
		return
	}
	within := readsWithin
	if size >= w.long*(hugeLog/longLog) {
		within = busyTimeout
	}
	err := w.begin(ctx, within)
	left := w.size()
	if err == nil && left < size {
		return
	}
	w.tryAt = left + w.long/4
	log := logrus.WithError(err).WithField("bytes", left)
	if within == busyTimeout {
		log.Warn("the log of the database grows: overlapping reads keep it from starting over")
	} else {
		log.Debug("reads keep the log of the database from being begun anew")
	}
}

// size is that of the file; 0 if there is none.
func (w *writeAhead) size() int64 {
	if w == nil {
		return 0
	}
	info, err := os.Stat(w.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// begin takes all of the log into the database and empties it, if the reads that need it end within a time. If they do not, that is no
// error.
func (w *writeAhead) begin(ctx context.Context, within time.Duration) (err error) {
	connection, err := w.database.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	wait := func(d time.Duration) string { return fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()) }
	for _, statement := range []string{wait(within), "PRAGMA wal_checkpoint(TRUNCATE)", wait(busyTimeout)} {
		if _, failed := connection.ExecContext(ctx, statement); failed != nil {
			err = errors.Join(err, failed) // the last one makes the connection what it was
		}
	}
	return err
}
