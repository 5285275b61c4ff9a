package datastore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
)

// wholeLog is kine's log, but for reads: one that fails half-way is an error. kine v0.16.4 never asks its rows for
// theirs, and a shorter list looks like proof that objects are gone.
type wholeLog struct {
	*sqllog.SQLLog
}

var _ logstructured.Log = wholeLog{}

func (l wholeLog) Start(ctx context.Context) error {
	ctx, c := withCall(ctx)
	return c.or(l.SQLLog.Start(ctx))
}

func (l wholeLog) List(ctx context.Context, key, end string, limit, revision int64, includeDeleted, keysOnly bool) (int64, server.Events, error) {
	ctx, c := withCall(ctx)
	rev, events, err := l.SQLLog.List(ctx, key, end, limit, revision, includeDeleted, keysOnly)
	if err := c.or(err); err != nil {
		return 0, nil, err
	}
	return rev, events, nil
}

func (l wholeLog) After(ctx context.Context, key, end string, revision, limit int64) (int64, server.Events, error) {
	ctx, c := withCall(ctx)
	rev, events, err := l.SQLLog.After(ctx, key, end, revision, limit)
	if err := c.or(err); err != nil {
		return rev, nil, err
	}
	return rev, events, nil
}

// errNotStored is the answer to a write that the database neither took nor refused.
var errNotStored = errors.New("the database has not said where it put the row")

// Append keeps the error in the call of ctx too: kine takes every failed update or deletion for a conflict, which
// clients try again at once, without end.
func (l wholeLog) Append(ctx context.Context, event *server.Event) (int64, error) {
	rev, err := l.SQLLog.Append(ctx, event)
	// go-sqlite3 says that a statement has succeeded, with no number of a row, if SQLite no longer knows the error.
	if err == nil && rev == 0 {
		err = &trouble{kind: unavailable, err: errNotStored}
	}
	if err != nil && !errors.Is(err, server.ErrKeyExists) {
		failed(ctx, err)
	}
	return rev, err
}

// dialect is kine's, but for its transactions: theirs end the process if they cannot be committed or rolled back, as
// on a full disk.
type dialect struct {
	server.Dialect
}

func (d dialect) BeginTx(ctx context.Context, opts *sql.TxOptions) (server.Transaction, error) {
	tx, err := d.Dialect.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &transaction{Transaction: tx}, nil
}

type transaction struct {
	server.Transaction
}

// SetCompactRevision commits, too: it is the last step of a compaction, and the last whose error kine returns.
func (t *transaction) SetCompactRevision(ctx context.Context, revision int64) error {
	if err := t.Transaction.SetCompactRevision(ctx, revision); err != nil {
		return err
	}
	return t.Commit()
}

// MustCommit has nothing left to do.
func (t *transaction) MustCommit() {}

// MustRollback takes no error for fatal: SQLite has rolled back by itself when the disk is full, and answers another
// rollback with an error.
func (t *transaction) MustRollback() { _ = t.Rollback() }
