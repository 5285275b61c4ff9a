package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// compactKey is the row in which kine keeps, as its prev_revision, up to where it has compacted.
const compactKey = "compact_rev_key"

// insertRow puts one row of kine's table into its place.
const insertRow = `INSERT INTO kine(id, name, created, deleted, create_revision, prev_revision, lease, value) VALUES(?, ?, ?, 0, ?, ?, ?, ?)`

// rowsAtOnce is how many rows one transaction writes.
const rowsAtOnce = 1000

// SQLiteSink builds the database of a data directory.
type SQLiteSink struct {
	path string
	db   *sql.DB
	tx   *sql.Tx
	rows int // in tx
}

var _ dump.Sink = (*SQLiteSink)(nil)

// NewSQLiteSink begins a database below dir, a data directory that has none.
func NewSQLiteSink(ctx context.Context, dir string) (*SQLiteSink, error) {
	path := sqlitePath(dir)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("there is a database already: %s", path), err)
	}
	// kine makes its table and indexes as it wants them, and rows of its own, which go.
	s, err := Start(ctx, Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		return nil, err
	}
	s.Stop()
	// Until it is finished nobody wants it back after a power cut.
	db, err := sql.Open(sqliteDriver, path+"?"+strings.Replace(parameters("normal"), "_synchronous=NORMAL", "_synchronous=OFF", 1))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "DELETE FROM kine"); err != nil {
		return nil, errors.Join(fmt.Errorf("emptying %s: %w", path, err), db.Close())
	}
	return &SQLiteSink{path: path, db: db}, nil
}

// Put implements dump.Sink.
func (s *SQLiteSink) Put(r dump.Record) error {
	created, createRevision := 0, r.CreateRevision
	if r.CreateRevision == r.ModRevision {
		created, createRevision = 1, 0 // as kine writes it
	}
	return s.insert(r.ModRevision, string(r.Key), created, createRevision, 0, int64(r.TTL/time.Second), r.Value)
}

func (s *SQLiteSink) insert(values ...any) (err error) {
	if s.tx == nil {
		if s.tx, err = s.db.Begin(); err != nil {
			return s.failed(err)
		}
	}
	if _, err := s.tx.Exec(insertRow, values...); err != nil {
		return s.failed(err)
	}
	if s.rows++; s.rows < rowsAtOnce {
		return nil
	}
	return s.commit()
}

func (s *SQLiteSink) commit() error {
	if s.tx == nil {
		return nil
	}
	tx := s.tx
	s.tx, s.rows = nil, 0
	return s.failed(tx.Commit())
}

// Finish implements dump.Sink.
func (s *SQLiteSink) Finish(revision int64) error {
	if err := s.insert(revision, compactKey, 1, 0, revision, 0, []byte{}); err != nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	var busy, logged, taken int
	if err := s.db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &taken); err != nil || busy != 0 {
		return s.failed(errors.Join(err, errors.New("its log cannot be taken in")))
	}
	if err := s.Close(); err != nil {
		return err
	}
	return s.failed(errors.Join(syncFile(s.path), syncFile(filepath.Dir(s.path))))
}

// Close implements dump.Sink.
func (s *SQLiteSink) Close() error {
	if s.tx != nil {
		_ = s.tx.Rollback() // what is given up
		s.tx = nil
	}
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return s.failed(db.Close())
}

func (s *SQLiteSink) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing the database %s: %w", s.path, err)
}

// syncFile returns when a file, or a directory's list of files, is on the disk. Some file systems refuse that for a
// directory; nothing more can be done there.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
