// Package controllers runs the upstream controllers without which an API server is a
// puzzle: a namespace that is deleted never goes, a pod is refused because there is
// no service account, a Deployment has no pods and nothing to cascade to.
//
// Each acts as its own service account of kube-system, with the rights that the
// bootstrap policy gives to it. docs/controllers.md says which controllers of
// Kubernetes are not here, and why.
package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Options says which controllers run and how they reach the API server.
type Options struct {
	// ConfigFor returns a client configuration for a service account of kube-system.
	ConfigFor func(serviceAccount string) *rest.Config
	// ManagerConfig is for the controller that acts as kube-controller-manager itself.
	ManagerConfig *rest.Config
	// InformerConfig may list and watch everything.
	InformerConfig *rest.Config
	// RootCA is the PEM bundle that workloads verify the API server with.
	RootCA []byte
	// Keys sign tokens and certificates.
	Keys Keys
	// Failures shows which controllers cannot start.
	Failures *Failures
	// Disabled reports whether the named controller is turned off.
	Disabled func(name string) bool
	// Released is closed when the controllers that delete objects may work. Until then they only watch, as after a
	// restore. nil means that they may work at once.
	Released <-chan struct{}
	// StartTimeout bounds how long the first lists may take.
	StartTimeout time.Duration
	Log          *logrus.Entry
}

// Keys names the files that controllers sign with. A file is read when it is needed.
type Keys struct {
	ServiceAccountKey  string
	ClientCA, ServerCA Authority
}

// Authority names the files of a certificate authority. Cert holds one certificate, that of Key.
type Authority struct{ Cert, Key string }

// workers is the number of goroutines per controller. An edge device has few objects,
// and more goroutines would only wait for the datastore.
const workers = 2

// controller describes a controller and how to create it.
type controller struct {
	name string
	// account is the service account of kube-system that it acts as; none: as kube-controller-manager.
	account string
	create  func(context.Context, parts) (run, error)
}

// deleting lists the controllers that Options.Released holds: they delete objects by themselves, not on a request.
var deleting = []string{"namespace", "podgc", "job", "cronjob", "ttl-after-finished", "endpoints", "resourceclaim", "csrcleaner",
	"serviceaccount-token"}

// run runs a controller until the context is cancelled, and returns when its goroutines
// have ended. It must be called for each created controller, if need be with a cancelled
// context: creating a controller starts goroutines that only run ends.
type run func(context.Context)

// parts are the arguments for creating a controller.
type parts struct {
	name     string // of the controller
	caches   *caches
	config   *rest.Config
	client   kubernetes.Interface
	rootCA   []byte
	keys     Keys
	failures *Failures
	log      *logrus.Entry
}

// all lists the controllers in the order in which they start.
var all = []controller{
	{"namespace", "namespace-controller", newNamespace},
	{"serviceaccount", "service-account-controller", newServiceAccount},
	{"root-ca-publisher", "root-ca-cert-publisher", newRootCAPublisher},
	{"clusterrole-aggregation", "clusterrole-aggregation-controller", newClusterRoleAggregation},
	{"podgc", "pod-garbage-collector", newPodGC},
	{"replicationcontroller", "replication-controller", newReplicationController},
	{"replicaset", "replicaset-controller", newReplicaSet},
	{"deployment", "deployment-controller", newDeployment},
	{"statefulset", "statefulset-controller", newStatefulSet},
	{"daemonset", "daemon-set-controller", newDaemonSet},
	{"job", "job-controller", newJob},
	{"cronjob", "cronjob-controller", newCronJob},
	{"ttl-after-finished", "ttl-after-finished-controller", newTTLAfterFinished},
	{"endpoints", "endpoint-controller", newEndpoints},
	{"endpointslice", "endpointslice-controller", newEndpointSlice},
	{"endpointslicemirroring", "endpointslicemirroring-controller", newEndpointSliceMirroring},
	{"disruption", "disruption-controller", newDisruption},
	{"resourcequota", "resourcequota-controller", newResourceQuota},
	{"validatingadmissionpolicy-status", "validatingadmissionpolicy-status-controller", newPolicyStatus},
	{"persistentvolume-binder", "persistent-volume-binder", newPersistentVolumeBinder},
	{"pvc-protection", "pvc-protection-controller", newPVCProtection},
	{"pv-protection", "pv-protection-controller", newPVProtection},
	{"vac-protection", "volumeattributesclass-protection-controller", newVACProtection},
	{"ephemeral-volume", "ephemeral-volume-controller", newEphemeralVolume},
	{"resourceclaim", "resource-claim-controller", newResourceClaim},
	{"csrapproving", "certificate-controller", newCSRApproving},
	{"csrsigning", "certificate-controller", newCSRSigning},
	{"csrcleaner", "certificate-controller", newCSRCleaner},
	{"serviceaccount-token", "", newServiceAccountToken},
}

// Names returns the names of all controllers, as passed to Options.Disabled.
func Names() []string {
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// Run runs the controllers until ctx is cancelled, and returns when their goroutines have
// ended. It calls running once all controllers have their first lists. If a controller
// cannot start, none runs, and the error names it.
func Run(ctx context.Context, o Options, running func()) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	defer cancel()
	client, err := kubernetes.NewForConfig(o.InformerConfig)
	if err != nil {
		return fmt.Errorf("starting controllers: %w", err)
	}
	caches := newCaches(client)
	created, err := create(ctx, o, caches)
	if err != nil {
		cancel()
	}
	var joined sync.WaitGroup
	names := make([]string, 0, len(created))
	for _, c := range created {
		names = append(names, c.name)
		joined.Go(func() {
			if o.Released != nil && slices.Contains(deleting, c.name) {
				select {
				case <-o.Released:
				case <-ctx.Done():
				}
			}
			c.run(ctx)
		})
	}
	if err == nil {
		err = caches.start(ctx, o.StartTimeout)
	}
	if err == nil && ctx.Err() == nil {
		o.Log.WithField("controllers", len(created)).Info("controllers are running")
		o.Log.WithField("controllers", names).Debug("these controllers are running")
		running()
		<-ctx.Done()
	}
	cancel()
	joined.Wait()
	caches.factory.Shutdown()
	return err
}

// named is a controller that has been created.
type named struct {
	name string
	run  run
}

// create creates the controllers that are not disabled. On an error it also returns the
// controllers created before.
func create(ctx context.Context, o Options, caches *caches) (created []named, err error) {
	defer func() { caches.asking = "" }()
	for _, c := range all {
		if o.Disabled(c.name) {
			continue
		}
		caches.asking = c.name
		p := parts{
			name: c.name, caches: caches, config: o.ManagerConfig, rootCA: o.RootCA, keys: o.Keys, failures: o.Failures,
			log: o.Log.WithField("controller", c.name),
		}
		if c.account != "" {
			p.config = o.ConfigFor(c.account)
		}
		if p.client, err = kubernetes.NewForConfig(p.config); err != nil {
			return created, fmt.Errorf("starting the %s controller: %w", c.name, err)
		}
		run, err := c.create(ctx, p)
		if err != nil {
			return created, fmt.Errorf("starting the %s controller: %w", c.name, err)
		}
		created = append(created, named{c.name, run})
	}
	return created, nil
}

// withWorkers converts a controller's own Run method to a run.
func withWorkers(own func(ctx context.Context, workers int)) run {
	return func(ctx context.Context) { own(ctx, workers) }
}
