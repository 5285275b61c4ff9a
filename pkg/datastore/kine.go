package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/metrics"
	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	// The datastores that there are. kine's own list is in its package endpoint, which nothing here imports: it
	// brings one more, with a database and the client of an object store, and a whole etcd server.
	_ "github.com/k3s-io/kine/pkg/drivers/mysql"
	_ "github.com/k3s-io/kine/pkg/drivers/pgsql"
	_ "github.com/k3s-io/kine/pkg/drivers/remote"
)

// stopWithin is how long calls that are under way may take when kine stops.
const stopWithin = 2 * time.Second

// kine is the etcd API over a database, served on a socket; or, if the datastore is an etcd, where that is.
type kine struct {
	endpoints []string
	grpc      *grpc.Server            // nil for an etcd
	client    func() *clientv3.Client // of SQLite: see Store.Client
	cancel    context.CancelFunc      // ends what the database's driver has started
	wg        *sync.WaitGroup         // the driver's goroutines, and the one that serves
	sqlite    *backend                // nil for any other database
	rows      *group                  // of SQLite
	disk      *disk                   // of SQLite
	writable  *writable               // of any other database
	hidden    lastError               // of any other database
}

// startKine opens the database and serves it. The end of ctx abandons that; not every driver notices it while it
// tries to reach a database.
func startKine(ctx context.Context, o Options, endpointURL string, sock *socket) (_ *kine, err error) {
	driverCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &kine{cancel: cancel, wg: &sync.WaitGroup{}}
	started := context.AfterFunc(ctx, cancel)
	defer func() {
		if !started() {
			err = context.Cause(ctx)
		}
		if err != nil {
			k.stop()
		}
	}()
	var b server.Backend
	if scheme(endpointURL) == "sqlite" {
		k.disk = newDisk(filepath.Dir(sqlitePath(o.Dir)), o.Reserve, o.Metrics)
		if k.sqlite, k.rows, err = newSQLite(driverCtx, k.wg, driverConfig(o, endpointURL), k.disk); err != nil {
			return nil, err
		}
		b = k.sqlite
	} else {
		config := driverConfig(o, endpointURL)
		_, elsewhere, err := drivers.New(driverCtx, k.wg, config)
		if err != nil {
			return nil, err
		}
		k.writable = newWritable(o.Metrics)
		if elsewhere == nil {
			k.endpoints = strings.Split(endpointURL, ",")
			return k, nil
		}
		compacted, err := newCompacted(driverCtx, k.wg, config, elsewhere)
		if err != nil {
			return nil, err
		}
		b = shared{compacted}
		k.wg.Go(func() {
			k.writable.keep(driverCtx, func(ctx context.Context) error { return rewrite(ctx, compacted.log()) })
		})
	}
	if err := b.Start(driverCtx); err != nil {
		return nil, fmt.Errorf("starting kine: %w", err)
	}
	o.Metrics.MustRegister(metrics.SQLTotal, metrics.SQLTime, metrics.CompactTotal, metrics.InsertErrorsTotal)
	listener, err := sock.listen()
	if err != nil {
		return nil, err
	}
	api := newEtcdAPI(b)
	if k.sqlite != nil {
		k.grpc = newGRPCServer(api)
	} else {
		api.writable = k.writable
		k.grpc = newGRPCServer(api, k.hidden.hide()...)
	}
	k.wg.Go(func() {
		if err := k.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			logrus.WithError(err).Error("the datastore's socket has failed")
		}
	})
	if k.sqlite != nil {
		k.wg.Go(func() { k.disk.keep(driverCtx) })
		k.client = services{kv: api, watch: api, lease: api, cluster: api, maintenance: api}.client
	}
	k.endpoints = []string{sock.url()}
	return k, nil
}

// stop returns when all of kine's goroutines have ended.
func (k *kine) stop() {
	if k.grpc != nil {
		force := time.AfterFunc(stopWithin, k.grpc.Stop)
		k.grpc.GracefulStop()
		force.Stop()
	}
	if k.sqlite != nil {
		k.sqlite.stop()
	}
	k.cancel()
	k.wg.Wait()
}

const (
	// notifyEvery is how often a quiet watch is told how far the datastore is.
	notifyEvery = 5 * time.Second
	// emulatedETCD is the version that kine says it is: the API server reads from it what etcd can do.
	emulatedETCD = "3.6.11"
	// minHistory is how many of the newest revisions a compaction leaves.
	minHistory = 1000
	// compactBatch is how many revisions kine compacts at a time.
	compactBatch = 1000
)

// driverConfig starts from the defaults of kine's own command line: a zero drivers.Config does not work.
func driverConfig(o Options, endpointURL string) *drivers.Config {
	return &drivers.Config{
		MetricsRegisterer:    o.Metrics,
		Endpoint:             endpointURL,
		CompactInterval:      compactEvery(endpointURL),
		CompactTimeout:       compactTimeout(endpointURL),
		CompactMinRetain:     cmp.Or(o.MinHistory, minHistory),
		CompactBatchSize:     compactBatch,
		PollBatchSize:        500,
		PollInterval:         time.Second,
		ConnectionPoolConfig: idleConnections(endpointURL),
	}
}

// idleConnections is how many connections to the database are kept that nobody uses, and for how long. One of SQLite's is opened in
// a millisecond and may hold 2 MB of pages: those that only a start or another burst needs are not to stay.
func idleConnections(endpointURL string) generic.ConnectionPoolConfig {
	if scheme(endpointURL) == "sqlite" {
		return generic.ConnectionPoolConfig{MaxIdle: 8, MaxIdleTime: 10 * time.Second}
	}
	return generic.ConnectionPoolConfig{MaxIdle: 20, MaxIdleTime: 2 * time.Minute}
}

// compactEvery is how often kine compacts by itself; 0 is never. The API server would
// write a row each time even if nothing has changed, and compact for the first time
// after two intervals, which a device that is often switched off never reaches. kine
// writes nothing then, and begins after one. Other datastores may have several servers,
// or be no kine's at all, and leave it to the API servers.
func compactEvery(endpointURL string) time.Duration {
	if scheme(endpointURL) == "sqlite" {
		return 5 * time.Minute
	}
	return 0
}

// compactTimeout is how long kine lets a batch take. It compacts a batch that has run out of time again from its beginning, and would
// never get further if it always does. A batch on SQLite is as many transactions as it needs, which have a limit each: see group.compact.
func compactTimeout(endpointURL string) time.Duration {
	if scheme(endpointURL) == "sqlite" {
		return compactBatch * compactWithin
	}
	return 5 * time.Second
}

func scheme(endpointURL string) string {
	s, _, _ := strings.Cut(endpointURL, "://")
	return s
}
