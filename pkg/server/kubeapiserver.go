package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/component-base/version"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/gc"
)

// RunKubeAPIServer runs an API server as kube-apiserver's command line configures it, with the controllers and the
// collector, until ctx is cancelled or a part fails, and returns when every part has stopped. It returns nil if ctx was
// cancelled, and otherwise the first failure. Of cfg it uses Disable, GC and Version.
//
// It has no data directory: certificates, keys and the store are those that the command line names. So the controllers
// in needKeys do not run.
func RunKubeAPIServer(ctx context.Context, cfg config.Server, line *apiserver.CommandLine) error {
	err := runKubeAPIServer(ctx, cfg, line)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // cancelled before it was ready
	}
	return err
}

// needKeys are the controllers that need a CA or the key of service accounts, which kube-apiserver's command line does not name.
var needKeys = []string{"root-ca-publisher", "csrsigning", "serviceaccount-token"}

func runKubeAPIServer(ctx context.Context, cfg config.Server, line *apiserver.CommandLine) error {
	began, started := time.Now(), startSmall()
	line.WithoutControllers = cfg.Disabled("controllers")
	cfg.DataDir, cfg.Disable = "", append(cfg.Disable, needKeys...)
	logrus.WithFields(logrus.Fields{
		"version": cfg.Version, "kubernetes": version.Get().GitVersion, "off": strings.Join(cfg.Disable, ", "),
	}).Info("reap is starting as kube-apiserver")
	startCtx, cancel := context.WithTimeoutCause(ctx, apiserverTimeout, fmt.Errorf("not ready within %s", apiserverTimeout))
	defer cancel()
	var failures controllers.Failures
	api, err := apiserver.Start(startCtx, apiserver.Options{
		CommandLine: line,
		Handlers:    reportHandlers(&failures),
		Runs:        func(controller string) bool { return !cfg.Disabled(controller) },
		Notes:       []apiserver.Note{readiness(gc.Running), controllersReadiness(&failures)},
	})
	if err != nil {
		return err
	}
	defer stopAPIServer(ctx, api)

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer fail(nil) // before the wait: parts end with ctx
	parts.Go(func() {
		if err := api.Wait(ctx); err != nil {
			fail(failure("the API server", err))
		}
	})
	running := make(chan struct{})
	parts.Go(func() {
		w := &workload{cfg: cfg, api: api, access: &access{}, failures: &failures, running: running}
		if err := w.run(ctx); err != nil {
			fail(err)
		}
	})
	select {
	case <-running:
		started()
		logrus.WithField("took", time.Since(began).Round(time.Millisecond).String()).Info("reap is ready")
		parts.Go(func() { KeepSmall(ctx) })
	case <-ctx.Done():
	}
	<-ctx.Done()
	logrus.Info("reap is stopping")
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
