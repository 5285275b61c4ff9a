package controllers

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	kubecontroller "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/install"
)

// How often discovery is asked for new resources, as in kube-controller-manager, and how often everything is counted again:
// objects of a new resource are refused until then, so five minutes, as there, would be long.
const (
	discoverEvery = 30 * time.Second
	recountEvery  = time.Minute
)

// newResourceQuota counts the objects that quotas cover. It watches every namespaced resource, so it is created with
// the first ResourceQuota.
func newResourceQuota(_ context.Context, p parts) (run, error) {
	quotas := p.caches.core().ResourceQuotas()
	objects, err := metadata.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	return onFirst(p, quotas.Informer(), func(ctx context.Context) (run, error) {
		all := &countedInformers{
			whole:    p.caches.factory,
			metadata: metadatainformer.NewSharedInformerFactoryWithOptions(objects, 0, metadatainformer.WithTransform(withoutManagedFields)),
		}
		counted, err := install.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(all.ForResource), p.caches.factory)
		if err != nil {
			return nil, err
		}
		discover := p.client.Discovery().ServerPreferredNamespacedResources
		started := make(chan struct{})
		close(started) // the informers of the other controllers have been
		c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
			QuotaClient:               p.client.CoreV1(),
			ResourceQuotaInformer:     quotas,
			ResyncPeriod:              kubecontroller.StaticResyncPeriodFunc(recountEvery),
			InformerFactory:           all,
			ReplenishmentResyncPeriod: kubecontroller.NoResyncPeriodFunc,
			DiscoveryFunc:             discover,
			IgnoredResourcesFunc:      counted.IgnoredResources,
			InformersStarted:          started,
			Registry:                  generic.NewRegistry(counted.Evaluators()),
			UpdateFilter:              install.DefaultUpdateFilter(),
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) {
			defer all.metadata.Shutdown()
			var joined sync.WaitGroup
			joined.Go(func() { c.Sync(ctx, discover, discoverEvery) })
			c.Run(ctx, workers)
			joined.Wait()
		}, nil
	})
}

// countedInformers are the informers of the resources that quotas count. For most resources the number of objects is
// enough, which needs only metadata.
type countedInformers struct {
	whole    informers.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory
}

// measured lists the resources of which quotas add up more than the number of objects.
var measured = map[schema.GroupResource]bool{
	{Resource: "pods"}: true, {Resource: "services"}: true, {Resource: "persistentvolumeclaims"}: true,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}: true,
}

func (i *countedInformers) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	if measured[r.GroupResource()] {
		return i.whole.ForResource(r)
	}
	informer := i.metadata.ForResource(r)
	// The quota controller never stops the informer of a resource whose CRD has been deleted.
	_ = informer.Informer().SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	}) // refused only by an informer that runs
	return informer, nil
}

func (i *countedInformers) Start(stop <-chan struct{}) {
	i.whole.Start(stop)
	i.metadata.Start(stop)
}
