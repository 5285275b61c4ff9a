// Package server is the composition root of `reap server`: it knows what starts
// when, what stops when, and what happens when a part fails. The parts do not
// know each other.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/pki"
)

const (
	// datastoreTimeout bounds how long a start waits for a database.
	datastoreTimeout = 60 * time.Second
	// lockTimeout bounds how long a start waits for `reap certificate`, which needs a moment.
	lockTimeout = 60 * time.Second
	// apiserverTimeout bounds how long a start waits for the API server.
	apiserverTimeout = 3 * time.Minute
	// stopTimeout bounds the end of the API server: a request may wait for a
	// webhook that never answers.
	stopTimeout = 5 * time.Second
)

// Run runs the control plane until ctx ends or a part fails, and returns when
// every part has stopped: nil if it was asked to end, else the first failure.
//
// Parts start in the order of this function, because each needs the ones before
// it, and stop in reverse, because each may still write to them:
//
//	data directory and its lock   nothing may run on another server's data
//	port                          a taken one is found out before anything is written
//	datastore                     outlasts the API server, whose last writes it takes
//	certificates                  the API server reads them
//	API server
//	controllers and collector     clients of the API server
//	ready                         says so only when all of that runs
func Run(ctx context.Context, cfg config.Server) error {
	if err := apiserver.CheckArgs(cfg.KubeAPIServerArgs); err != nil {
		return config.Wrong{Err: err}
	}
	s := &server{cfg: cfg, began: time.Now(), notify: takeNotifySocket()}
	err := s.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // asked to end before it was ready
	}
	return err
}

// server is one run of the control plane.
type server struct {
	cfg    config.Server
	began  time.Time
	notify notifier
}

func (s *server) run(ctx context.Context) (err error) {
	dir, err := openDataDir(s.cfg.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()

	listener, err := listen(s.cfg.BindAddress, s.cfg.HTTPSListenPort)
	if err != nil {
		return err
	}
	store, err := datastore.Start(ctx, datastore.Options{
		Dir:          s.cfg.DataDir,
		Endpoint:     s.cfg.DatastoreEndpoint,
		Synchronous:  s.cfg.SQLiteSynchronous,
		Metrics:      legacyregistry.Registerer(),
		StartTimeout: datastoreTimeout,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer store.Stop()

	// Held until the API server has read them: nobody replaces half of a pair under its hands.
	lockCtx, locked := context.WithTimeoutCause(ctx, lockTimeout, fmt.Errorf("still busy after %s", lockTimeout))
	defer locked()
	unlock, err := pki.Lock(lockCtx, s.cfg.DataDir)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer unlock()
	access, err := s.ensureAccess(listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	startCtx, started := context.WithTimeoutCause(ctx, apiserverTimeout, fmt.Errorf("not ready within %s", apiserverTimeout))
	defer started()
	api, err := apiserver.Start(startCtx, apiserver.Options{
		Listener:              listener,
		PKI:                   access.files,
		EtcdEndpoints:         store.Endpoints,
		Shared:                s.cfg.SharedDatastore(),
		StoreCompacts:         store.Compacts,
		ServiceClusterIPRange: serviceRange,
		Handlers:              handlers(),
		Notes:                 []apiserver.Note{readiness(gc.Running)},
		Args:                  s.cfg.KubeAPIServerArgs,
	})
	if err != nil {
		return err
	}
	unlock()
	defer func() {
		stopCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTimeout, fmt.Errorf("still busy after %s", stopTimeout))
		defer cancel()
		if stopErr := api.Stop(stopCtx); stopErr != nil {
			logrus.WithError(stopErr).Warn("the API server did not end in order")
		}
	}()
	return s.serve(ctx, dir, api, access)
}

// handlers are what is served beside the API.
func handlers() map[string]http.Handler {
	reports := &report.Handler{Running: gc.Running.Reported}
	all := map[string]http.Handler{report.Root: reports}
	for _, path := range report.GraphPaths {
		all[path] = reports
	}
	return all
}

// serve runs what needs the API server, says that all is ready, and waits for the
// end: ctx, or a part that fails.
func (s *server) serve(ctx context.Context, dir *dataDir, api *apiserver.Server, access *access) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer fail(nil) // before the wait: parts end with ctx

	changed := access.watch(ctx, &parts)
	parts.Go(func() { access.keep(ctx, changed) })
	parts.Go(func() {
		if err := api.Wait(ctx); err != nil {
			fail(failure("the API server", err))
		}
	})
	running := make(chan struct{})
	parts.Go(func() {
		w := &workload{cfg: s.cfg, api: api, rootCA: access.rootCA, running: running}
		if err := w.run(ctx); err != nil {
			fail(err)
		}
	})
	select {
	case <-running:
		if err := s.announce(dir, access); err != nil {
			fail(err)
		}
		parts.Go(func() { keepSmall(ctx) })
		defer dir.notReady()
	case <-ctx.Done():
	}
	<-ctx.Done()
	s.notify.send("STOPPING=1")
	logrus.Info("reap is stopping")
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// announce says that the server is ready, and where.
func (s *server) announce(dir *dataDir, access *access) error {
	if err := dir.ready(Ready{URL: access.url, Kubeconfig: access.kubeconfig, PID: os.Getpid(), Version: s.cfg.Version}); err != nil {
		return err
	}
	logrus.WithFields(logrus.Fields{
		"url":        access.url,
		"kubeconfig": access.kubeconfig,
		"took":       time.Since(s.began).Round(time.Millisecond).String(),
	}).Info("reap is ready")
	s.notify.send("READY=1")
	return nil
}

// failure says which part could not go on.
func failure(part string, err error) error { return fmt.Errorf("%s failed: %w", part, err) }
