package datastore

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/query"
)

// compactionStatements connects to a database elsewhere, which kine's driver has set up, and returns kine's statements for compactions.
// The driver has the same and does not export them.
func compactionStatements(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config) (statements *generic.Generic, err error) {
	if cfg.Scheme == "mysql" {
		statements, err = mysqlStatements(ctx, wg, cfg.DataSourceName)
	} else {
		statements, err = postgresStatements(ctx, wg, cfg.DataSourceName)
	}
	if err != nil {
		return nil, err
	}
	statements.ErrCode = errCode
	return statements, nil
}

// unpooled keeps no connection: a compaction is seldom, and one whose transaction has failed must not be used again.
var unpooled = generic.ConnectionPoolConfig{MaxIdle: -1}

func postgresStatements(ctx context.Context, wg *sync.WaitGroup, dsn string) (*generic.Generic, error) {
	config, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	statements, err := generic.OpenDB(ctx, wg, "pgx", stdlib.GetConnector(*config), unpooled, "$", true, nil)
	if err != nil {
		return nil, err
	}
	statements.CompactSQL = query.New(`
		DELETE FROM kine AS kv
		USING (
			SELECT kp.prev_revision AS id FROM kine AS kp
			WHERE kp.name != 'compact_rev_key' AND kp.prev_revision != 0 AND kp.id > $1 AND kp.id <= $2
			UNION ALL
			SELECT kd.id AS id FROM kine AS kd
			WHERE kd.deleted != 0 AND kd.id > $3 AND kd.id <= $4
		) AS ks
		WHERE kv.id = ks.id`, "$", true, "Compact")
	return statements, nil
}

// postgresConfig reads an endpoint as kine's driver does.
func postgresConfig(dsn string) (*pgx.ConnConfig, error) {
	u, err := url.Parse("postgres://" + cmp.Or(dsn, "postgres:postgres@localhost/"))
	if err != nil {
		return nil, err
	}
	u.Path = strings.ToLower("/" + cmp.Or(strings.TrimPrefix(u.Path, "/"), kinesDatabase))
	return pgx.ParseConfig(u.String())
}

func mysqlStatements(ctx context.Context, wg *sync.WaitGroup, dsn string) (*generic.Generic, error) {
	config, err := mysqlConfig(dsn)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	statements, err := generic.OpenDB(ctx, wg, "mysql", connector, unpooled, "?", false, nil)
	if err != nil {
		return nil, err
	}
	statements.LastInsertID = true
	statements.CompactSQL = query.New(`
		DELETE kv FROM kine AS kv
		INNER JOIN (
			SELECT kp.prev_revision AS id FROM kine AS kp
			WHERE kp.name != 'compact_rev_key' AND kp.prev_revision != 0 AND kp.id > ? AND kp.id <= ?
			UNION ALL
			SELECT kd.id AS id FROM kine AS kd
			WHERE kd.deleted != 0 AND kd.id > ? AND kd.id <= ?
		) AS ks
		ON kv.id = ks.id`, "?", false, "Compact")
	statements.TxRetry = func(err error) bool {
		e, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && e.Number == mysqlRecordChanged
	}
	return statements, nil
}

// mysqlRecordChanged is MariaDB's error, by default since 11.6.2, of a transaction that reads a row that another one has changed since it
// began. A new transaction may succeed.
const mysqlRecordChanged = 1020

// mysqlConfig reads an endpoint as kine's driver does.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(cmp.Or(dsn, "root@unix(/var/run/mysqld/mysqld.sock)/"))
	if err != nil {
		return nil, err
	}
	config.DBName = cmp.Or(config.DBName, kinesDatabase)
	return config, nil
}

// kinesDatabase is the database of an endpoint that names none.
const kinesDatabase = "kubernetes"

// errCode is the label of an error in kine's series.
func errCode(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return strconv.Itoa(int(e.Number))
	}
	return "other"
}
