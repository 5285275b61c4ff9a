// Package datastore runs kine in process: the etcd API that the API server
// stores its objects through, over SQLite in the data directory or over a
// database elsewhere.
//
// It lives on a context of its own, because it has to outlast the API server:
// start it first, stop it last.
package datastore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/client"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/endpoint"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/retry"
)

// Options says where the data is.
type Options struct {
	// Dir is the data directory; the SQLite file and kine's socket live below it.
	Dir string
	// Endpoint is a kine endpoint such as postgres://…; empty means SQLite in Dir.
	// It may hold a password and appears in no error and no log line.
	Endpoint string
	// Synchronous is SQLite's synchronous level, normal or full.
	Synchronous string
	// Metrics receives kine's series. It must not have them yet: kine registers
	// once in a process.
	Metrics prometheus.Registerer
	// StartTimeout bounds Start. An unreachable database fails after it.
	StartTimeout time.Duration
}

// Store is a running datastore.
type Store struct {
	// Endpoints are etcd endpoints for the API server.
	Endpoints []string
	// Client TLS material, for a datastore that is a real etcd.
	CAFile, CertFile, KeyFile string
	// Compacts is true if the datastore compacts itself: no client has to.
	Compacts bool

	cancel context.CancelFunc
	wg     *sync.WaitGroup
	socket *socket
}

// Start opens the database and returns once a write has been read back. Ending
// ctx abandons the start; it does not stop a Store that has been returned.
func Start(ctx context.Context, o Options) (*Store, error) {
	endpointURL := o.Endpoint
	if endpointURL == "" {
		dsn, err := openSQLite(ctx, o.Dir, o.Synchronous)
		if err != nil {
			return nil, err
		}
		endpointURL = dsn
	}
	sock, err := newSocket(o.Dir)
	if err != nil {
		return nil, err
	}
	storeCtx, cancel := context.WithCancel(context.Background())
	s := &Store{Compacts: compactEvery(endpointURL) > 0, cancel: cancel, wg: &sync.WaitGroup{}, socket: sock}

	startCtx, stop := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("no answer within %s", o.StartTimeout))
	defer stop()
	// Listen cannot be interrupted while it tries to reach a database: it is left
	// behind when the start is abandoned, and the process ends soon after.
	type listening struct {
		etcd endpoint.ETCDConfig
		err  error
	}
	done := make(chan listening, 1)
	go func() {
		etcd, err := endpoint.Listen(storeCtx, kineConfig(o, endpointURL, sock.listener(), s.wg))
		done <- listening{etcd, err}
	}()
	var l listening
	select {
	case l = <-done:
	case <-startCtx.Done():
		l.err = context.Cause(startCtx)
	}
	if l.err != nil {
		cancel()
		sock.close()
		return nil, fmt.Errorf("opening the datastore (%s): %w", scheme(endpointURL), l.err)
	}
	s.Endpoints = l.etcd.Endpoints
	s.CAFile, s.CertFile, s.KeyFile = l.etcd.TLSConfig.CAFile, l.etcd.TLSConfig.CertFile, l.etcd.TLSConfig.KeyFile
	if err := writeAndReadBack(startCtx, l.etcd); err != nil {
		s.Stop()
		return nil, fmt.Errorf("using the datastore (%s): %w", scheme(endpointURL), err)
	}
	return s, nil
}

// Stop closes the database and returns when kine's goroutines have ended. Whoever
// uses the store must have stopped before.
func (s *Store) Stop() {
	s.cancel()
	s.wg.Wait()
	s.socket.close()
}

// kineConfig starts from the defaults of kine's own command line: a zero
// endpoint.Config does not work.
func kineConfig(o Options, endpointURL, listener string, wg *sync.WaitGroup) endpoint.Config {
	return endpoint.Config{
		WaitGroup:           wg,
		GRPCServer:          newGRPCServer(),
		Listener:            listener,
		Endpoint:            endpointURL,
		MetricsRegisterer:   o.Metrics,
		NotifyInterval:      5 * time.Second,
		EmulatedETCDVersion: "3.6.11",
		CompactInterval:     compactEvery(endpointURL),
		CompactTimeout:      5 * time.Second,
		CompactMinRetain:    1000,
		CompactBatchSize:    1000,
		PollBatchSize:       500,
		ConnectionPoolConfig: generic.ConnectionPoolConfig{
			MaxIdle:     20,
			MaxIdleTime: 2 * time.Minute,
		},
	}
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

// canary is the key that a start writes and reads back.
const canary = "/reap/started"

func writeAndReadBack(ctx context.Context, etcd endpoint.ETCDConfig) (err error) {
	c, err := client.New(etcd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// Servers that share the datastore may write the key at the same moment: one of
	// them loses that race, and tries again.
	err = retry.OnError(retry.DefaultRetry, func(err error) bool { return ctx.Err() == nil }, func() error {
		now := []byte(time.Now().UTC().Format(time.RFC3339))
		err := c.Put(ctx, canary, now)
		if errors.Is(err, client.ErrNotFound) {
			err = c.Create(ctx, canary, now)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if _, err := c.Get(ctx, canary); err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	return nil
}

func scheme(endpointURL string) string {
	s, _, _ := strings.Cut(endpointURL, "://")
	return s
}
