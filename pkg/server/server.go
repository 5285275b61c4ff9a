// Package server is the composition root of `reap server`: it knows the order in which the
// parts start and stop, and what happens when one fails. The parts do not know each other.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/pkg/process"
	"github.com/reap-dev/reap/pkg/snapshot"
)

const (
	// datastoreTimeout bounds how long opening a datastore may take once it answers; see datastore.Options.
	datastoreTimeout = 60 * time.Second
	// lockTimeout bounds how long a start waits for a running `reap certificate`.
	lockTimeout = 60 * time.Second
	// apiserverTimeout bounds how long a start waits for the API server.
	apiserverTimeout = 3 * time.Minute
	// stopTimeout bounds how long the API server may take to stop: a request may wait for
	// a webhook that never answers.
	stopTimeout = 5 * time.Second
)

// Run runs the control plane until ctx is cancelled or a part fails, and returns when
// every part has stopped. It returns nil if ctx was cancelled, and otherwise the first failure.
// down is watched for a datastore elsewhere.
//
// Parts start in the order of this function, because each needs the ones before
// it. They stop in reverse, because each may still write to those:
//
//	data directory and its lock   nothing may run on another server's data
//	room on the disk              reading the database takes some
//	check of the database         a damaged or missing one must not be changed
//	port                          a taken port is found before anything is written
//	datastore                     outlasts the API server and takes its last writes
//	certificates                  the API server reads them
//	API server
//	controllers and collector     clients of the API server
//	ready                         reported only when everything above runs
func Run(ctx context.Context, cfg config.Server, down *outage.Outage) error {
	if err := apiserver.CheckArgs(cfg.KubeAPIServerArgs, !cfg.SharedDatastore()); err != nil {
		return config.UsageError{Err: err}
	}
	s := &server{cfg: cfg, began: time.Now(), started: startSmall(), notify: takeNotifySocket(), down: down}
	err := s.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // cancelled before it was ready
	}
	return err
}

// server is one run of the control plane.
type server struct {
	cfg     config.Server
	began   time.Time
	started func() // is called when the server is ready
	notify  notifier
	maker   *snapshot.Maker
	check   *storeCheck
	// failures are the controllers that cannot start.
	failures controllers.Failures
	down     *outage.Outage
	pages    bool // of an SQLite database were all looked at before the start
}

func (s *server) run(ctx context.Context) (err error) {
	dir, err := openDataDir(s.cfg.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	dir.warnIfOpen()
	if err := CheckFormat(s.cfg.DataDir); err != nil {
		return err
	}
	if err := settleBefore(s.cfg.DataDir); err != nil {
		return err
	}
	full, err := s.makeRoom()
	if err != nil {
		return err
	}
	gone, err := s.checkStore(ctx)
	if err != nil {
		return s.orFull(err)
	}

	listener, err := listen(s.cfg.BindAddress, s.cfg.HTTPSListenPort)
	if err != nil {
		return err
	}
	s.greet()
	if err := writeFormat(s.cfg.DataDir, s.cfg.Version); err != nil {
		// A full disk must not keep a server from starting that would make room. Without the file the format counts as 1, which it is.
		logrus.WithError(err).Warn("cannot record the data directory's format")
	}
	if gone != nil {
		if err := s.goOn(ctx, gone); err != nil {
			return errors.Join(s.orFull(err), listener.Close())
		}
	}
	store, err := datastore.Start(ctx, datastore.Options{
		Dir:          s.cfg.DataDir,
		Endpoint:     s.cfg.DatastoreEndpoint,
		Synchronous:  s.cfg.SQLiteSynchronous,
		Reserve:      int64(s.cfg.DatastoreReserve) << 20,
		Full:         full,
		VerifyFirst:  true,
		CheckPages:   !s.pages,
		Metrics:      legacyregistry.Registerer(),
		Outage:       s.down,
		Away:         s.cfg.DatastoreTimeout,
		Waiting:      s.notify.extend,
		StartTimeout: datastoreTimeout,
	})
	if err != nil {
		return errors.Join(s.orFull(err), listener.Close())
	}
	defer store.Stop()
	if !s.etcd() {
		if err := dir.holdStore(); err != nil { // of a first start, which has made it
			return errors.Join(err, listener.Close())
		}
	}
	marking, marked := context.WithCancel(context.WithoutCancel(ctx))
	var mark sync.WaitGroup
	mark.Go(func() { s.mark(marking, store) })
	defer mark.Wait() // its last mark comes after the API server's last write
	defer marked()
	if s.etcd() {
		registerEtcd()
	}
	s.check = newStoreCheck(store)
	s.check.register(legacyregistry.Registerer())
	s.maker = s.newMaker(store)

	// Hold the lock until the API server has loaded the files, so that no key is replaced without its certificate.
	lockCtx, locked := context.WithTimeoutCause(ctx, lockTimeout, fmt.Errorf("still busy after %s", lockTimeout))
	defer locked()
	unlock, err := pki.Lock(lockCtx, s.cfg.DataDir)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer unlock()
	if err := s.agree(ctx, store); err != nil {
		return errors.Join(err, listener.Close())
	}
	access, err := s.ensureAccess(listener.Addr())
	if err == nil {
		err = s.agree(ctx, store)
	}
	if err != nil {
		return errors.Join(s.orFull(err), listener.Close())
	}

	startCtx, started := context.WithTimeoutCause(ctx, apiserverTimeout, fmt.Errorf("not ready within %s", apiserverTimeout))
	defer started()
	api, err := apiserver.Start(startCtx, apiserver.Options{
		Listener:              listener,
		PKI:                   access.files,
		EtcdEndpoints:         store.Endpoints,
		Client:                store.Client,
		Shared:                s.cfg.SharedDatastore(),
		Store:                 apiserver.Store{Refusal: store.Refusal, Left: store.Left, Explain: store.Explain},
		StoreCompacts:         store.Compacts,
		ServiceClusterIPRange: serviceRange,
		Handlers:              handlers(s.maker, &s.failures),
		LongRunning:           []string{snapshot.Path},
		Runs:                  func(controller string) bool { return !s.cfg.Disabled(controller) },
		Notes:                 []apiserver.Note{readiness(gc.Running), storeReadiness(store, s.check), controllersReadiness(&s.failures)},
		Args:                  s.cfg.KubeAPIServerArgs,
	})
	if err != nil {
		return err
	}
	unlock()
	defer stopAPIServer(ctx, api)
	if err := s.markStore(ctx); err != nil {
		return err
	}
	return s.serve(ctx, dir, store, api, access)
}

func stopAPIServer(ctx context.Context, api *apiserver.Server) {
	stopCtx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTimeout, fmt.Errorf("still busy after %s", stopTimeout))
	defer cancel()
	if err := api.Stop(stopCtx); err != nil {
		logrus.WithError(err).Warn("stopping the API server failed")
	}
}

// handlers are the paths that the server adds to the API.
func handlers(snapshots *snapshot.Maker, failures *controllers.Failures) map[string]http.Handler {
	all := reportHandlers(failures)
	all[snapshot.Path] = &snapshot.Handler{Maker: snapshots, Log: logrus.WithField("component", "snapshot")}
	return all
}

// reportHandlers are the paths of the collector's reports, which also show the controllers that cannot start.
func reportHandlers(failures *controllers.Failures) map[string]http.Handler {
	reports := &report.Handler{Running: gc.Running.Reported, Controllers: func() []report.Controller { return failedControllers(failures.All()) }}
	all := map[string]http.Handler{report.Root: reports}
	for _, path := range report.GraphPaths {
		all[path] = reports
	}
	return all
}

// serve runs the parts that need the API server, reports that the server is ready, and
// waits until ctx is cancelled or a part fails.
func (s *server) serve(ctx context.Context, dir *dataDir, store *datastore.Store, api *apiserver.Server, access *access) error {
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
	parts.Go(func() {
		if err := store.Wait(ctx); err != nil {
			fail(failure("the datastore", err))
		}
	})
	running := make(chan struct{})
	parts.Go(func() {
		w := &workload{cfg: s.cfg, api: api, access: access, failures: &s.failures, running: running, verified: s.check.whole, unverified: s.check.why}
		if err := w.run(ctx); err != nil {
			fail(err)
		}
	})
	select {
	case <-running:
		s.started()
		parts.Go(func() { s.check.run(ctx) })
		if err := s.announce(dir, access); err != nil {
			fail(err)
		}
		parts.Go(func() { KeepSmall(ctx) })
		if s.cfg.Snapshot.Interval > 0 {
			parts.Go(func() { s.schedule().Run(ctx) })
		}
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

// engine names the datastore.
func (s *server) engine() string {
	if s.cfg.DatastoreEndpoint == "" {
		return datastore.SQLite
	}
	scheme, _, _ := strings.Cut(s.cfg.DatastoreEndpoint, "://") // what follows may be a password
	if slices.Contains([]string{"http", "https", "unix", "unixs"}, scheme) {
		return config.EmbeddedEtcd // its name is that of all etcds
	}
	return scheme
}

// greet logs the version, the data directory, the kind of datastore and the disabled parts, and what the datastore cannot promise
// (kine#676).
func (s *server) greet() {
	off := "nothing"
	if len(s.cfg.Disable) > 0 {
		off = strings.Join(s.cfg.Disable, ", ")
	}
	logrus.WithFields(logrus.Fields{
		"version":    s.cfg.Version,
		"kubernetes": version.Get().GitVersion,
		"data":       s.cfg.DataDir,
		"datastore":  s.engine(),
		"off":        off,
	}).Info("reap is starting")
	if slices.Contains([]string{"postgres", "postgresql", "mysql"}, s.engine()) {
		logrus.WithFields(logrus.Fields{"datastore": s.engine(), "see": `docs/datastore.md, "Several servers on SQL"`}).
			Info("lists of this datastore may lack a write that commits late; where controllers must see every object at once, use etcd")
	}
}

// announce reports that the server is ready, and where it listens.
func (s *server) announce(dir *dataDir, access *access) error {
	ready := Ready{URL: access.url, Kubeconfig: access.kubeconfig, Version: s.cfg.Version, Identity: process.Self(), Settings: s.cfg.Digests()}
	if err := dir.ready(ready); err != nil {
		return err
	}
	logrus.WithFields(logrus.Fields{
		"url":        access.url,
		"kubeconfig": access.kubeconfig,
		"took":       time.Since(s.began).Round(time.Millisecond).String(),
		"next":       s.next(access),
	}).Info("reap is ready")
	s.notify.send("READY=1")
	return nil
}

// next returns a command for the user to try next. It names the kubeconfig only if reap would not find it by itself.
func (s *server) next(access *access) string {
	if s.cfg.DataDir == config.DefaultServer().DataDir {
		return "reap kubectl get namespaces"
	}
	return "reap kubectl --kubeconfig " + access.kubeconfig + " get namespaces"
}

// failure names the part that has failed.
func failure(part string, err error) error { return fmt.Errorf("%s failed: %w", part, err) }
