package datastore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/query"
	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// relieveAfter is how many bytes are written to a full disk before the history that they leave is dropped.
	relieveAfter = 1 << 20
	// rowCosts is what a row costs beside its value.
	rowCosts = 4 << 10
	// pagesCost is how much longer a row makes the log beside its value, at most: it writes pages of the table and of two indexes.
	pagesCost = 64 << 10
	// usualLog is how long SQLite's log becomes if no read keeps it from starting over: a thousand pages.
	usualLog = 4 << 20
	// toldWithin is how long a relief waits until watches have been told of the newest rows, and toldEvery how often it looks.
	toldWithin, toldEvery = time.Second, 2 * time.Millisecond
)

// thrift keeps a database from growing while its disk is full, so that everything in it can be deleted with the room of the reserve: a
// row then leaves out the value before, which watches find in the row before, and no history is kept that watches have been told of.
type thrift struct {
	disk *disk
	rows *group
	log  *writeAhead
	// lean is the database whose rows leave out the value before.
	lean server.Dialect
	// told returns the revision up to which all watches have been told of changes; 0 for none.
	told func() int64
	// free returns how many bytes of the database's file are free pages.
	free func(ctx context.Context) (int64, error)

	spent  atomic.Int64 // bytes of rows since the last relief
	inside atomic.Int64 // bytes of free pages at the last relief
	one    sync.Mutex   // held during a relief
}

func newThrift(statements *generic.Generic, rows *group, d *disk, told func() int64) *thrift {
	const before = "(SELECT value FROM ikv)"
	t := &thrift{disk: d, rows: rows, log: rows.log, told: told, lean: &generic.Generic{
		DB: statements.DB, LastInsertID: statements.LastInsertID, TranslateErr: statements.TranslateErr, ErrCode: statements.ErrCode,
		InsertSQL: query.New(strings.Replace(statements.InsertSQL.Query, before, "NULL", 1), "?", false, "InsertLean"),
	}}
	t.free = func(ctx context.Context) (bytes int64, err error) {
		const pages = "SELECT freelist_count * page_size FROM pragma_freelist_count(), pragma_page_size()"
		return bytes, statements.DB.QueryRowContext(ctx, pages).Scan(&bytes)
	}
	return t
}

// refusal returns why the disk takes no more; nil if it is not full.
func (t *thrift) refusal() *trouble {
	if t == nil {
		return nil
	}
	if refusal := t.disk.refusal(); refusal != nil && refusal.kind == full {
		return refusal
	}
	return nil
}

// on reports whether the disk is full.
func (t *thrift) on() bool { return t.refusal() != nil }

// wrote is told of rows that have been written. On a full disk it makes room from time to time, and returns when that is done: so no
// writer can use the reserve up with the history of what it writes.
func (t *thrift) wrote(ctx context.Context, rows []*insertion) {
	if !t.on() {
		return
	}
	var bytes int64
	for _, r := range rows {
		bytes += rowCosts + int64(len(r.value))
	}
	if t.spent.Add(bytes) >= relieveAfter {
		_ = t.relieve(ctx) // if it has made no room, the next write says so
		if _, enough := t.disk.regained(); enough {
			select {
			case t.disk.freed <- struct{}{}:
			default:
			}
		}
	}
}

// relieve makes room on a full disk: it drops history and takes the log in. The error says why writes could not go on.
func (t *thrift) relieve(ctx context.Context) error {
	if !t.on() { // also if there is no thrift
		return nil
	}
	t.one.Lock()
	defer t.one.Unlock()
	t.spent.Store(0)
	if err := t.forget(ctx); err != nil {
		logrus.WithError(err).Debug("the history on a full disk is kept")
	}
	if err := t.takeLogIn(ctx); err != nil {
		logrus.WithError(err).Debug("the log on a full disk is kept")
	}
	if free, err := t.free(ctx); err == nil {
		t.inside.Store(free)
	}
	return t.tooLong(0)
}

// forget drops the history that watches have been told of. The newest row stays, also if it is a deletion: its revision is the
// database's.
func (t *thrift) forget(ctx context.Context) error {
	newest, err := t.rows.database.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, toldWithin)
	defer cancel()
	// If the time is over, less is dropped.
	_ = wait.PollUntilContextCancel(within, toldEvery, true, func(context.Context) (bool, error) { return t.told() >= newest-1, nil })
	if to := min(t.told(), newest-1); to > 0 {
		_, err = t.rows.compact(ctx, to)
	}
	return err
}

// foresee takes the disk for full before rows are written that would make the log longer than what the database can take in: that needs as
// much room again for a moment, and without it nothing more can be written at all.
func (t *thrift) foresee(ctx context.Context, rows []*insertion) {
	if t == nil || t.on() {
		return
	}
	var bytes int64
	for _, r := range rows {
		bytes += int64(len(r.value)) + pagesCost
	}
	if t.tooLong(bytes) == nil {
		return
	}
	if err := t.shorten(ctx); err != nil {
		logrus.WithError(err).Debug("the log on a disk that is nearly full is kept")
	}
	if err := t.tooLong(bytes); err != nil {
		t.disk.seenByProbe(err)
	}
}

// near reports whether the disk is full or may soon be. The value before may be large, and one transaction deletes many rows.
func (t *thrift) near() bool {
	if t == nil {
		return false
	}
	free, known := t.disk.free()
	return t.on() || known && free < longLog
}

// tooLong returns an error if the database may not be able to take the log in, and so many bytes more, with half of the reserve.
func (t *thrift) tooLong(more int64) error {
	r := t.disk.reserve
	free, known := t.disk.free()
	if !known || r.size == 0 {
		return nil
	}
	if size := t.log.size(); size+2*more > free+(r.size-r.missing())/2 {
		return fmt.Errorf("the database's log has %s, and %s are free: %w", humanize.IBytes(uint64(size)), humanize.IBytes(uint64(free)), unix.ENOSPC)
	}
	return nil
}

// left returns how much of the reserve is left, from 0 to 1, with all else that serves for it.
func (t *thrift) left() float64 {
	free, known := t.disk.free()
	if !known {
		return 1
	}
	return min(1, float64(free+min(t.log.size(), usualLog)+t.inside.Load())/float64(max(t.disk.reserve.size, room)))
}

// takeLogIn takes the log into the database; no row is written meanwhile. A long log gives its room back to the disk. Another keeps it for
// the next rows: nothing else on the disk can take it.
func (t *thrift) takeLogIn(ctx context.Context) error {
	if t.log.size() > usualLog || t.tooLong(0) != nil {
		return t.shorten(ctx)
	}
	if err := t.rows.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.rows.turns.Release(1)
	_, err := t.log.database.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}

// shorten takes the log in and gives its room back to the disk.
func (t *thrift) shorten(ctx context.Context) error {
	if err := t.rows.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.rows.turns.Release(1)
	return t.log.begin(ctx, readsWithin)
}
