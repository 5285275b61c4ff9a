package datastore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// watched is a connector whose connections report the errors that kine ignores: a read that fails half-way looks to
// it like the end of a list.
type watched struct {
	driver driver.Driver
	dsn    string
	disk   *disk
}

var _ driver.Connector = (*watched)(nil)

func (w *watched) Driver() driver.Driver { return w.driver }

func (w *watched) Connect(context.Context) (driver.Conn, error) {
	c, err := w.driver.Open(w.dsn)
	if err != nil {
		return nil, w.disk.seen(err, false)
	}
	whole, ok := c.(contextConn)
	if !ok {
		return nil, errors.Join(errors.New("the database driver lacks what kine uses"), c.Close())
	}
	return &watchedConn{contextConn: whole, disk: w.disk}, nil
}

// contextConn is what database/sql uses of the driver's connections.
type contextConn interface {
	driver.Conn
	driver.Pinger
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type watchedConn struct {
	contextConn
	disk *disk
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.disk.lost(); err != nil {
		return nil, err
	}
	result, err := c.contextConn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, c.disk.seen(err, true)
	}
	// A sync of another connection may have failed meanwhile, and this one have succeeded for it.
	return result, c.disk.lost()
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.contextConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, c.disk.seen(err, false)
	}
	return &watchedRows{Rows: rows, ctx: ctx, disk: c.disk}, nil
}

func (c *watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.disk.lost(); err != nil {
		return nil, err
	}
	tx, err := c.contextConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, c.disk.seen(err, true)
	}
	return &watchedTx{Tx: tx, disk: c.disk}, nil
}

type watchedTx struct {
	driver.Tx
	disk *disk
}

func (t *watchedTx) Commit() error { return t.disk.seen(t.Tx.Commit(), true) }

type watchedRows struct {
	driver.Rows
	ctx  context.Context // of the call that reads them
	disk *disk
}

func (r *watchedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.disk.seen(err, false)
		failed(r.ctx, err)
	}
	return err
}
