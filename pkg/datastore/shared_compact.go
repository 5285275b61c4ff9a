package datastore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
)

// compacted is kine's backend for a database elsewhere, with compactions that do not end the process. They have connections of their own,
// since kine does not export those of its backend. Several servers may compact at once, as with kine's: each transaction begins where
// the database says, and does nothing if another server has compacted meanwhile.
type compacted struct {
	server.Backend
	// log makes a log of the same rows for one compaction. A second one would be held to the revision that the log has read first.
	log func() *sqllog.SQLLog
}

func newCompacted(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config, b server.Backend) (compacted, error) {
	statements, err := compactionStatements(ctx, wg, cfg)
	if err != nil {
		return compacted{}, err
	}
	return compacted{b, func() *sqllog.SQLLog { return sqllog.New(patient{statements}, wg, cfg) }}, nil
}

// Compact answers as kine's: once the database has been asked how far it is, a failure is in the log and in kine_compact_total alone. The
// next compaction begins where this one did.
func (c compacted) Compact(ctx context.Context, revision int64) (int64, error) {
	log := c.log()
	if err := log.Start(ctx); err != nil {
		return 0, err
	}
	return log.Compact(ctx, revision)
}

// patient is kine's dialect, but for its transactions: theirs end the process if they cannot be committed or rolled back, as when the
// database closes the connection.
type patient struct{ server.Dialect }

func (d patient) BeginTx(ctx context.Context, opts *sql.TxOptions) (server.Transaction, error) {
	tx, err := d.Dialect.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return patientTx{tx}, nil
}

type patientTx struct{ server.Transaction }

// Compact commits: it is the last step of a compaction, and the last whose error kine returns.
func (t patientTx) Compact(ctx context.Context, from, to int64) (int64, error) {
	rows, err := t.Transaction.Compact(ctx, from, to)
	if err != nil {
		return 0, err
	}
	return rows, t.Commit()
}

// MustCommit has nothing left to do.
func (patientTx) MustCommit() {}

// MustRollback takes no error for fatal. The database rolls back what it cannot be told of, and the connection is not used again.
func (t patientTx) MustRollback() {
	_ = t.Rollback()
}
