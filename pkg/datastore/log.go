package datastore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
)

// wholeLog is kine's log, but for reads: one that fails half-way is an error. kine v0.17.5 never asks its rows for
// theirs, and a shorter list looks like proof that objects are gone.
type wholeLog struct {
	*sqllog.SQLLog
	rows    server.Dialect
	changes *changes
	// asked makes a log of the same rows that compacts only when it is asked to. It is an error while nothing may be compacted.
	asked func() (*sqllog.SQLLog, error)
}

var _ logstructured.Log = wholeLog{}

func (l wholeLog) Start(ctx context.Context) error {
	ctx, c := withCall(ctx)
	return c.or(l.SQLLog.Start(ctx))
}

func (l wholeLog) List(ctx context.Context, key, end string, limit, revision int64, includeDeleted, keysOnly bool) (server.EventBatch, error) {
	ctx, c := withCall(ctx)
	batch, err := l.SQLLog.List(ctx, key, end, limit, revision, includeDeleted, keysOnly)
	if err := orEnded(ctx, c.or(err)); err != nil {
		return server.EventBatch{}, err
	}
	return batch, nil
}

// orEnded returns that the caller of a read has ended it, if that is so. kine v0.17.5 may find no revision then, and calls the
// store unhealthy; or fewer rows than there are, and no error: database/sql may end rows between two of them without asking the
// driver, which would have said so.
func orEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ListStream: kine asks the rows for their error, but not those that end before the first.
func (l wholeLog) ListStream(ctx context.Context, key, end string, limit, revision int64, includeDeleted, keysOnly bool) server.ListResult {
	ctx, c := withCall(ctx)
	list := l.SQLLog.ListStream(ctx, key, end, limit, revision, includeDeleted, keysOnly)
	kines, errs := list.Errorc, make(chan error, 1)
	list.Errorc = errs
	go func() {
		defer close(errs)
		if err := c.or(<-kines); err != nil { // closed at the end of the list
			errs <- err
		}
	}()
	return list
}

func (l wholeLog) After(ctx context.Context, key, end string, revision, limit int64) (server.EventBatch, error) {
	ctx, c := withCall(ctx)
	batch, err := l.after(ctx, key, end, revision, limit)
	if err := orEnded(ctx, c.or(err)); err != nil {
		batch.Events = nil
		return batch, err
	}
	return batch, nil
}

// after does what SQLLog's After does, but tells each change with the value before. kine v0.17.5 leaves that out if it was written before
// the compacted revision, even if it was the key's value at that revision. The API server ends a watch that lacks it.
func (l wholeLog) after(ctx context.Context, key, end string, revision, limit int64) (server.EventBatch, error) {
	batch, compacted, err := l.changesAfter(ctx, key, end, revision, limit)
	switch {
	case err != nil:
	case batch.CurrentRev == 0:
		err = server.ErrGRPCUnhealthy
	case revision > 0 && revision < compacted:
		err = server.ErrCompacted
	case revision > batch.CurrentRev:
		err = server.ErrFutureRev
	}
	return batch, err
}

func (l wholeLog) changesAfter(ctx context.Context, key, end string, revision, limit int64) (server.EventBatch, int64, error) {
	if end != "" && limit > 0 {
		return l.changes.after(ctx, key, end, revision, limit)
	}
	rows, err := l.rows.After(ctx, key, end, revision, limit)
	if err != nil {
		return server.EventBatch{}, 0, err
	}
	return sqllog.RowsToEvents(rows, true, true)
}

// CurrentRevision asks the database. kine v0.17.5 keeps what it has written last, which stays behind when two writes
// end at the same time.
func (l wholeLog) CurrentRevision(ctx context.Context) (int64, error) {
	batch, err := l.List(ctx, server.HealthKey, "", 1, 0, true, true)
	return batch.CurrentRev, err
}

// Compact compacts what a client asks for. kine v0.17.5 answers that it has, and does nothing, where it compacts by itself.
func (l wholeLog) Compact(ctx context.Context, revision int64) (int64, error) {
	log, err := l.asked()
	if err != nil {
		return 0, err
	}
	if err := log.Start(ctx); err != nil {
		return 0, err
	}
	return log.Compact(ctx, revision)
}

// errNotStored is the answer to a write that the database neither took nor refused.
var errNotStored = errors.New("the database has not said where it put the row")

// Append keeps the error in the call of ctx too: kine takes every failed update or deletion for a conflict, which
// clients try again at once, without end.
func (l wholeLog) Append(ctx context.Context, event *server.Event) (int64, error) {
	rev, err := l.SQLLog.Append(ctx, event)
	if err == nil && rev == 0 {
		rev, err = l.conflict(ctx, event)
	}
	if err != nil && !errors.Is(err, server.ErrKeyExists) {
		failed(ctx, err)
	}
	if err == nil {
		appended(ctx, rev)
	}
	return rev, err
}

// conflict returns no error if another write was faster. go-sqlite3 says the same of a write that has failed, that a
// statement has succeeded and changed no row, if SQLite no longer knows the error. Then the key is as it was; a
// compaction may have taken its deletion away in between, which the second write finds.
func (l wholeLog) conflict(ctx context.Context, event *server.Event) (int64, error) {
	for range 2 {
		batch, err := l.List(ctx, event.KV.Key, "", 1, 0, true, true)
		if err != nil {
			return 0, err
		}
		var is, was int64
		if len(batch.Events) > 0 {
			is = batch.Events[0].KV.ModRevision
		}
		if event.PrevKV != nil {
			was = event.PrevKV.ModRevision
		}
		if is != was {
			return 0, nil
		}
		if rev, err := l.SQLLog.Append(ctx, event); err != nil || rev != 0 {
			return rev, err
		}
	}
	return 0, &trouble{kind: unavailable, err: errNotStored}
}

// dialect is kine's, but for its transactions: theirs end the process if they cannot be committed or rolled back, as on a full disk, and
// hold one row each.
type dialect struct {
	server.Dialect
	group *group
}

// BeginTx: kine asks for this isolation where it writes a row of the log, and for serializable transactions elsewhere.
func (d dialect) BeginTx(ctx context.Context, opts *sql.TxOptions) (server.Transaction, error) {
	if opts.Isolation == sql.LevelReadCommitted {
		return oneRow{group: d.group}, nil
	}
	if err := d.group.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	tx, err := d.Dialect.BeginTx(ctx, opts)
	if err != nil {
		d.group.turns.Release(1)
		return nil, err
	}
	return &transaction{tx, d.group, sync.OnceFunc(func() { d.group.turns.Release(1) })}, nil
}

// oneRow is a transaction that inserts one row, which is committed then. kine does nothing else in it.
type oneRow struct {
	server.Transaction
	group *group
}

func (t oneRow) Insert(ctx context.Context, key string, created, deleted bool, previous, ttl int64, value []byte) (int64, error) {
	return t.group.insert(ctx, &insertion{key: key, created: created, deleted: deleted, previous: previous, ttl: ttl, value: value})
}

func (oneRow) Commit() error { return nil }

func (oneRow) Rollback() error { return nil }

// transaction is a compaction's, or that of the first start. It has a turn of the group's.
type transaction struct {
	server.Transaction
	group *group
	done  func() // ends the turn
}

// SetCompactRevision leaves it to Compact, which kine calls next.
func (t *transaction) SetCompactRevision(context.Context, int64) error { return nil }

// Compact ends the transaction, which has only read so far, and compacts in smaller ones, which are committed when it returns: it is the
// last step of a batch, and the last whose error kine returns.
func (t *transaction) Compact(ctx context.Context, _, to int64) (int64, error) {
	t.MustRollback()
	return t.group.compact(ctx, to)
}

// MustCommit has nothing left to do.
func (t *transaction) MustCommit() {}

// MustRollback takes no error for fatal: SQLite has rolled back by itself when the disk is full, and answers another
// rollback with an error. kine ends each transaction with it, also one that is committed.
func (t *transaction) MustRollback() {
	_ = t.Rollback()
	t.done()
}
