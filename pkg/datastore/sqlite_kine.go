package datastore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
)

// newSQLite returns kine's backend for SQLite, put together from kine's parts with ours in between:
//
//	backend        a write that fails is an error, no conflict
//	logstructured  kine's
//	wholeLog       a read that fails half-way is an error
//	sqllog         kine's
//	dialect        a compaction that fails ends no process
//	generic        kine's statements
//	watched        the driver's connections, which tell what fails
func newSQLite(ctx context.Context, wg *sync.WaitGroup, cfg *drivers.Config, d *disk) (server.Backend, error) {
	cfg.DataSourceName = strings.TrimPrefix(cfg.Endpoint, "sqlite://")
	metrics := cfg.MetricsRegisterer
	if watchedDriver() != nil {
		cfg.MetricsRegisterer = nil // for the connections that take the place of kine's
	}
	_, statements, err := sqlite.NewVariant(ctx, wg, sqliteDriver, cfg)
	if err != nil {
		return nil, d.seen(err, true)
	}
	if driver := watchedDriver(); driver != nil {
		connector := &watched{driver: driver, dsn: cfg.DataSourceName, disk: d}
		opened, err := generic.OpenDB(ctx, wg, sqliteDriver, connector, cfg.ConnectionPoolConfig, "?", false, metrics)
		if err != nil {
			return nil, err
		}
		if err := statements.DB.Close(); err != nil {
			return nil, fmt.Errorf("closing the connections that made the table: %w", err)
		}
		statements.DB = opened.DB
	}
	log := wholeLog{sqllog.New(dialect{statements}, wg, cfg)}
	return &backend{LogStructured: logstructured.New(log), log: log}, nil
}
