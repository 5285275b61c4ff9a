package datastore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/query"
	"github.com/k3s-io/kine/pkg/server"

	"github.com/reap-dev/reap/pkg/datastore/watch"
)

// newSQLite returns kine's backend for SQLite, put together from kine's parts with ours in between:
//
//	backend        a write that fails is an error, no conflict
//	logstructured  kine's
//	wholeLog       a read that fails half-way is an error
//	sqllog         kine's
//	dialect        a compaction that fails ends no process, and writes of the same time share a transaction
//	generic        kine's statements, but for most reads
//	watched        the driver's connections, which tell what fails
func newSQLite(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config, d *disk) (_ *backend, rows *group, err error) {
	cfg.DataSourceName = strings.TrimPrefix(cfg.Endpoint, "sqlite://")
	statements, index, err := sqliteStatements(ctx, wg, cfg, d)
	if err != nil {
		return nil, nil, err
	}
	rows = newGroup(statements)
	path, _, _ := strings.Cut(cfg.DataSourceName, "?")
	rows.log = newWriteAhead(statements.DB, path)
	kines := dialect{statements, rows}
	log := wholeLog{SQLLog: sqllog.New(kines, wg, cfg), rows: kines, changes: newChanges(statements.DB, index), asked: func() (*sqllog.SQLLog, error) {
		if rows.doubtful.Load() {
			return nil, errDoubtful
		}
		asked := *cfg
		asked.CompactInterval = 0
		return sqllog.New(kines, wg, &asked), nil
	}}
	kine := logstructured.New(log)
	hub := watch.NewHub(log, notifyEvery)
	rows.thrift = newThrift(statements, rows, d, hub.Told)
	d.more = func() error { return rows.thrift.relieve(ctx) }
	d.inside = rows.thrift.inside.Load
	wg.Go(func() { rows.run(ctx) })
	return &backend{LogStructured: kine, log: log, watches: hub, counts: newCounter(kine.Count)}, rows, nil
}

// sqliteStatements opens the database and returns kine's statements for it, with our reads, and the table's index of names and revisions.
func sqliteStatements(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config, d *disk) (_ *generic.Generic, index string, err error) {
	driver := watchedDriver()
	if driver == nil { // kine's connections, table and indexes
		_, statements, err := sqlite.NewVariant(ctx, wg, sqliteDriver, cfg)
		if err != nil {
			return nil, "", d.seen(err, true)
		}
		cheapReads(statements, kinesIndex)
		return statements, kinesIndex, nil
	}
	connector := &watched{driver: driver, dsn: cfg.DataSourceName, disk: d}
	statements, err := generic.OpenDB(ctx, wg, sqliteDriver, connector, cfg.ConnectionPoolConfig, "?", false, cfg.MetricsRegisterer)
	if err != nil {
		return nil, "", err
	}
	if index, err = makeTable(ctx, statements.DB, d); err != nil {
		return nil, "", fmt.Errorf("making the table: %w", err)
	}
	// What follows is what kine sets, but for the checkpoint.
	statements.LastInsertID = true
	statements.GetSizeSQL = query.New(`SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`, "?", false, "GetSize")
	// A row that names one of another key as the one before is damaged, and takes nothing with it.
	statements.CompactSQL = query.New(`DELETE FROM kine WHERE id IN (
		SELECT old.id FROM kine AS new JOIN kine AS old ON old.id = new.prev_revision AND old.name = new.name
			WHERE new.name != 'compact_rev_key' AND new.id > ? AND new.id <= ?
		UNION ALL
		SELECT id FROM kine WHERE deleted != 0 AND id > ? AND id <= ?)`, "?", false, "Compact")
	// kine's FULL would keep all writers waiting until every read that has begun is at its end.
	statements.PostCompactSQL = query.New(`PRAGMA wal_checkpoint(PASSIVE)`, "?", false, "PostCompact")
	statements.TranslateErr = func(err error) error {
		if code, _, _ := sqliteCode(err); code == sqliteConstraintUnique {
			return server.ErrKeyExists
		}
		return err
	}
	statements.ErrCode = func(err error) string {
		if err == nil {
			return ""
		}
		if code, _, known := sqliteCode(err); known {
			return strconv.Itoa(code)
		}
		return err.Error()
	}
	cheapReads(statements, index)
	if index == ourIndex {
		cheapCounts(statements)
	}
	return statements, index, nil
}

// sqliteConstraintUnique is SQLite's extended result code of a row that is there already.
const sqliteConstraintUnique = 19 | 8<<8

// makeTable makes kine's table with two indexes instead of six, and returns the one of names and revisions. No statement needs the others,
// and each is written with every row: with all six a creation writes 45 kB, with two 28.
func makeTable(ctx context.Context, db *sql.DB, d *disk) (index string, err error) {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER,
			create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)`,
		`CREATE UNIQUE INDEX IF NOT EXISTS kine_name_prev_revision_uindex ON kine (name, prev_revision)`,
		`DROP INDEX IF EXISTS kine_name_index`,
		`DROP INDEX IF EXISTS kine_id_deleted_index`,
		`DROP INDEX IF EXISTS kine_prev_revision_index`,
		`DROP INDEX IF EXISTS kine_id_compact_rev_key_with_prev_revision_index`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return "", err
		}
	}
	if index, err = makeIndex(ctx, db, d, indexWithin); err != nil {
		return "", err
	}
	_, err = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return index, err
}

// cheapReads replaces kine's statements for lists, for one key and for the latest changes. There is one row without a key if there is
// nothing: the current revision is always answered.
//
// kine's lists read every key of the range and sort them before the first is answered, also if a page is asked for. These
// read the keys in the order of an index, and stop after the page. kine's reads of one key and of the latest changes name what
// they find twice, which SQLite answers with temporary tables: 330 µs instead of 60 for each deletion's read, and for each change
// that watches are told of.
func cheapReads(statements *generic.Generic, index string) {
	read := func(name, columns, where, order string) *query.Named {
		return query.New(fmt.Sprintf(`SELECT now.id, (%s), %s
			FROM kine AS now LEFT JOIN kine AS kv %s
			WHERE now.id = (SELECT MAX(id) FROM kine)
			%s`, generic.CompactRevSQL, ofRow(columns), where, order), "?", false, name)
	}
	list := func(name, columns, atRevision string) *query.Named {
		return read(name, columns, fmt.Sprintf(`INDEXED BY %s
			ON kv.name >= ? AND kv.name < ?
			AND kv.id = (SELECT MAX(same.id) FROM kine AS same WHERE same.name = kv.name %s)
			AND (kv.deleted = 0 OR ?)`, index, atRevision), "ORDER BY kv.name")
	}
	const atRevision = "AND same.id <= ?"
	statements.ListCurrentSQL = list("ListCurrent", generic.Columns, "")
	statements.ListCurrentValSQL = list("ListCurrentVal", generic.WithVal, "")
	statements.GetRevisionAfterSQL = list("GetRevisionAfter", generic.Columns, atRevision)
	statements.GetRevisionAfterValSQL = list("GetRevisionAfterVal", generic.WithVal, atRevision)

	const one = "ON kv.id = (SELECT MAX(same.id) FROM kine AS same WHERE same.name = ?) AND (kv.deleted = 0 OR ?)"
	statements.GetSingleSQL = read("GetSingle", generic.Columns, one, "")
	statements.GetSingleValSQL = read("GetSingleVal", generic.WithVal, one, "")
	statements.AfterAllOldValSQL = read("AfterAllOldVal", generic.WithOldVal, "ON kv.id > ?", "ORDER BY kv.id ")
	statements.AfterSingleOldValSQL = read("AfterSingleOldVal", generic.WithOldVal, "ON kv.name = ? AND kv.id > ?", "ORDER BY kv.id ")
}

// ofRow names columns of a row kv. The value before is in the row before if the row itself lacks it (see thrift), and that row is there
// for as long as changes after it are told: a compaction takes both.
func ofRow(columns string) string {
	columns = "kv." + strings.ReplaceAll(columns, ", ", ", kv.")
	return strings.Replace(columns, "kv.old_value", `COALESCE(kv.old_value, (SELECT was.value FROM kine AS was
		WHERE was.id = kv.prev_revision AND was.name = kv.name AND was.deleted = 0))`, 1)
}
