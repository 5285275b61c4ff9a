package server

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/elect"
	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// controllersTimeout bounds how long a start waits for the controllers' first lists.
const controllersTimeout = time.Minute

// leaseName is the name of the lease of Kubernetes' controller manager, which the leader
// replaces: the bootstrap policy allows its user only this lease, and the two can never
// run on one datastore at once.
const leaseName = "kube-controller-manager"

// workload runs the clients of the server's own API server: the controllers and the
// collector. Of several servers on one datastore only the leader runs them.
type workload struct {
	cfg    config.Server
	api    *apiserver.Server
	access *access
	// running is closed once controllers and collector run, or this server waits to lead.
	running chan struct{}
	once    sync.Once
	// verified is closed when the store is known to be whole, and unverified says why it is not yet. Nil without a check.
	verified   <-chan struct{}
	unverified func() string
}

// run works until ctx is cancelled or a part fails, and returns when all goroutines have
// ended. It returns the error of the part that failed.
func (w *workload) run(ctx context.Context) error {
	if !w.collects() {
		w.absent(report.Absence{Reason: "no collector runs in this server (--disable=gc)"})
		logrus.Warn("no collector runs (--disable=gc): objects whose owners disappear stay, and foreground and orphaning deletions wait for a collector")
	}
	if err := w.holdAfterRestore(ctx); err != nil {
		return err
	}
	if w.collects() {
		gc.RegisterMetrics()
	}
	if !w.cfg.SharedDatastore() {
		return w.lead(ctx, func(c *rest.Config) *rest.Config { return c })
	}
	w.isRunning()
	w.waitsToLead()
	return elect.Run(ctx, elect.Options{
		Config: w.api.ControllerManagerConfig(), Namespace: metav1.NamespaceSystem, Name: leaseName,
		Log: logrus.WithField("component", "election"),
	}, func(ctx context.Context, fence func(*rest.Config) *rest.Config) error {
		defer w.waitsToLead()
		return w.lead(ctx, fence)
	})
}

// waitsToLead records for reports why no collector runs here.
func (w *workload) waitsToLead() {
	if w.collects() {
		w.absent(report.Absence{Reason: "this server waits to lead; another one collects", Elsewhere: true})
	}
}

// absent records for reports that no collector runs here.
func (w *workload) absent(a report.Absence) {
	a.Disabled = w.disabled()
	gc.Running.Absent(a)
}

// disabled names the controllers that do not run.
func (w *workload) disabled() []string {
	return slices.DeleteFunc(controllers.Names(), func(name string) bool { return !w.cfg.Disabled(name) })
}

func (w *workload) collects() bool { return !w.cfg.Disabled("gc") }

func (w *workload) isRunning() { w.once.Do(func() { close(w.running) }) }

// lead runs the controllers and the collector until ctx is cancelled or one of them
// fails. Every client configuration goes through fence.
func (w *workload) lead(ctx context.Context, fence func(*rest.Config) *rest.Config) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var parts sync.WaitGroup
	var once sync.Once
	var first error
	// runs returns a function that a part calls, once or more often, when it is running. The
	// server is running when all parts have called their functions.
	var left atomic.Int32
	runs := func() func() {
		left.Add(1)
		return sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				w.isRunning()
			}
		})
	}
	part := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				once.Do(func() { first = failure(name, err) })
				fail(err)
			}
		})
	}
	free, watch, err := released(w.api.ControllerManagerConfig(), w.verified)
	if err != nil {
		return err
	}
	parts.Go(func() { watch(ctx) })
	controllersRun, collectorRuns := runs(), runs()
	part("a controller", func(ctx context.Context) error {
		return controllers.Run(ctx, controllers.Options{
			ConfigFor:      func(sa string) *rest.Config { return fence(w.api.ServiceAccountConfig(sa)) },
			InformerConfig: w.api.ControllerManagerConfig(),
			ManagerConfig:  fence(w.api.ControllerManagerConfig()),
			RootCA:         w.access.rootCA,
			Keys: controllers.Keys{
				ServiceAccountKey: w.access.files.ServiceAccountKey,
				ClientCA:          controllers.Authority{Cert: w.access.files.ClientCA, Key: w.access.files.ClientCAKey},
				ServerCA:          controllers.Authority{Cert: w.access.files.ServerCA, Key: w.access.files.ServerCAKey},
			},
			Disabled:     w.cfg.Disabled,
			Released:     free,
			StartTimeout: controllersTimeout,
			Log:          logrus.WithField("component", "controllers"),
		}, controllersRun)
	})
	if w.collects() {
		w.absent(report.Absence{Reason: "the collector is about to start"})
		part("the collector", func(ctx context.Context) error {
			return gc.Run(ctx, gc.Options{
				Config:           fence(w.api.ServiceAccountConfig("generic-garbage-collector")),
				Workers:          w.cfg.GC.Workers,
				Ignore:           ignored(w.cfg.GC.Ignore),
				Resync:           w.cfg.GC.Resync,
				OrphanTimeout:    w.cfg.GC.OrphanTimeout,
				SyncTimeout:      gc.Timeout{Base: w.cfg.GC.SyncTimeout, PerDependent: w.cfg.GC.SyncTimeoutPerDependent},
				Check:            w.cfg.GC.Check,
				Guard:            w.cfg.GC.Guard,
				Pauser:           fence(w.api.PauserConfig()),
				NoCycleDetection: !w.cfg.GC.CycleDetection,
				Disabled:         w.disabled(),
				Verified:         w.verified,
				Unverified:       w.unverified,
				Log:              logrus.WithField("component", "gc"),
			}, collectorRuns)
		})
	} else {
		collectorRuns()
	}
	parts.Wait()
	return first
}

func ignored(names []string) []schema.GroupResource {
	var grs []schema.GroupResource
	for _, n := range names {
		grs = append(grs, schema.ParseGroupResource(n))
	}
	return grs
}
