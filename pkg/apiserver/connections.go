package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	etcdtransport "go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/tracing"
)

// As kube-apiserver has them.
const (
	dialTimeout      = 20 * time.Second
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// connections lets the stores of all resources share a connection to the datastore. kube-apiserver dials one for each, more
// than a hundred, whose buffers and goroutines take memory here and in etcd.
//
// Each store still has watches and leases of its own, so that those of another do not hold it up.
type connections struct {
	mu   sync.Mutex // protects open, and the users of what is in it
	open map[string]*shared
}

// shared is an open connection.
type shared struct {
	client    *clientv3.Client
	compactor etcd3.Compactor // nil if the datastore compacts itself
	stop      func()          // stops the compactor
	users     int
}

// connect returns what a store needs. The connection is closed when all of its stores are.
func (c *connections) connect(config storagebackend.Config) (backend, error) {
	t := config.Transport
	key := fmt.Sprintf("%q %q %q %q", t.ServerList, t.CertFile, t.KeyFile, t.TrustedCAFile)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.open[key]
	if !ok {
		var err error
		if s, err = newShared(config); err != nil {
			return backend{}, err
		}
		if c.open == nil {
			c.open = map[string]*shared{}
		}
		c.open[key] = s
	}
	s.users++
	client := clientv3.NewCtxClient(s.client.Ctx())
	client.KV = clientv3.NewKV(s.client)
	client.Lease = clientv3.NewLease(s.client)
	client.Watcher = clientv3.NewWatcher(s.client)
	client.Maintenance = clientv3.NewMaintenance(s.client)
	client.Cluster = clientv3.NewCluster(s.client)
	return backend{client: client, compactor: s.compactor, close: func() {
		_ = client.Close() // it has no connection
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(c.open, key)
			s.close()
		}
	}}, nil
}

func newShared(config storagebackend.Config) (*shared, error) {
	client, err := dial(config.Transport)
	if err != nil {
		return nil, err
	}
	feature.DefaultFeatureSupportChecker.CheckClient(client.Ctx(), client, storage.RequestWatchProgress)
	s := &shared{client: client, stop: func() {}}
	if config.CompactionInterval > 0 {
		// There is one for each endpoint, and it may be one that kube-apiserver has started for the allocators of ports.
		compactor := etcd3.StartCompactorPerEndpoint(client, config.CompactionInterval)
		s.compactor, s.stop = compactor, compactor.Stop
	}
	return s, nil
}

func (s *shared) close() {
	s.stop()
	_ = s.client.Close() // the process stops using the datastore
}

// dial does what kube-apiserver's newETCD3Client does: it returns once the datastore has answered.
func dial(t storagebackend.TransportConfig) (*clientv3.Client, error) {
	metrics := clientMetrics()
	options := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(metrics.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(metrics.StreamClientInterceptor()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithMessageEvents(otelgrpc.ReceivedEvents, otelgrpc.SentEvents),
			otelgrpc.WithPropagators(tracing.Propagators()),
			otelgrpc.WithTracerProvider(t.TracerProvider),
		)),
	}
	if t.EgressLookup != nil {
		through, err := t.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		if through != nil {
			options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				if u, err := url.Parse(address); err == nil && strings.Contains(address, "//") {
					address = u.Host
				}
				return through(ctx, "tcp", address)
			}))
		}
	}
	config := clientv3.Config{
		Endpoints:            t.ServerList,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions:          options,
	}
	if t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
		files := etcdtransport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}
		var err error
		if config.TLS, err = files.ClientConfig(); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	if err := waitConnected(client.ActiveConnection()); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// waitConnected returns once a connection can be used.
func waitConnected(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("etcd grpc connection not ready: %w", ctx.Err())
		}
	}
}

// clientMetrics returns the metrics of calls to the datastore, which kube-apiserver has registered and keeps private.
func clientMetrics() *grpcprom.ClientMetrics {
	metrics := grpcprom.NewClientMetrics()
	var registered prometheus.AlreadyRegisteredError
	if err := legacyregistry.Registerer().Register(metrics); errors.As(err, &registered) {
		if theirs, ok := registered.ExistingCollector.(*grpcprom.ClientMetrics); ok {
			return theirs
		}
	}
	return metrics
}
