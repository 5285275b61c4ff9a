// Package controllers runs the upstream controllers without which an API server
// is a puzzle: a namespace that is deleted never goes, a pod is refused because
// there is no service account.
package controllers

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// Options says which controllers run and how they reach the API server.
type Options struct {
	// ConfigFor returns a client configuration for a service account of kube-system.
	ConfigFor func(serviceAccount string) *rest.Config
	// InformerConfig may list and watch everything.
	InformerConfig *rest.Config
	// RootCA is the PEM bundle that workloads verify the API server with.
	RootCA []byte
	// Disabled is asked for each controller by name.
	Disabled func(name string) bool
	Log      *logrus.Entry
}

// workers is how many goroutines each controller gets: a namespace has few
// neighbours on an edge device.
const workers = 2

// controller is one of them: how to make it, and the informers it shares.
type controller struct {
	name  string
	start func(context.Context, *shared) (run func(context.Context), err error)
}

// all lists the controllers in the order in which they start.
var all = []controller{
	{"namespace", startNamespace},
	{"serviceaccount", startServiceAccount},
	{"root-ca-publisher", startRootCAPublisher},
}

// shared is what controllers have in common.
type shared struct {
	Options
	informers informers.SharedInformerFactory
	// rootCAs shows nothing but the ConfigMaps that the root CA publisher writes:
	// an informer of all ConfigMaps would keep every one of them in memory.
	rootCAs informers.SharedInformerFactory
}

// Run runs the controllers until ctx ends and returns when their goroutines have
// ended. A controller that cannot start is an error that names it, and none runs
// then.
func Run(ctx context.Context, o Options) error {
	client, err := kubernetes.NewForConfig(o.InformerConfig)
	if err != nil {
		return fmt.Errorf("starting controllers: %w", err)
	}
	s := &shared{
		Options:   o,
		informers: informers.NewSharedInformerFactory(client, 0),
		rootCAs: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, rootcacertpublisher.RootCACertConfigMapName).String()
		})),
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var running sync.WaitGroup
	defer running.Wait()
	defer s.informers.Shutdown()
	defer s.rootCAs.Shutdown()
	defer cancel()

	var names []string
	var runs []func(context.Context)
	for _, c := range all {
		if o.Disabled(c.name) {
			continue
		}
		run, err := c.start(ctx, s)
		if err != nil {
			return fmt.Errorf("starting the %s controller: %w", c.name, err)
		}
		names, runs = append(names, c.name), append(runs, run)
	}
	s.informers.Start(ctx.Done())
	s.rootCAs.Start(ctx.Done())
	for _, run := range runs {
		running.Go(func() { run(ctx) })
	}
	o.Log.WithField("controllers", names).Info("controllers are running")
	<-ctx.Done()
	return nil
}

func startNamespace(ctx context.Context, s *shared) (func(context.Context), error) {
	config := rest.CopyConfig(s.ConfigFor("namespace-controller"))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, objects, client.Discovery().ServerPreferredNamespacedResources,
		s.informers.Core().V1().Namespaces(), 0, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func startServiceAccount(ctx context.Context, s *shared) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(s.ConfigFor("service-account-controller"))
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), s.informers.Core().V1().ServiceAccounts(),
		s.informers.Core().V1().Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func startRootCAPublisher(_ context.Context, s *shared) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(s.ConfigFor("root-ca-cert-publisher"))
	if err != nil {
		return nil, err
	}
	p, err := rootcacertpublisher.NewPublisher(s.rootCAs.Core().V1().ConfigMaps(), s.informers.Core().V1().Namespaces(), client, s.RootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { p.Run(ctx, workers) }, nil
}
