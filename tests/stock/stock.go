// Package stock runs the collector of Kubernetes, for tests and benchmarks to compare with.
package stock

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// Start starts the collector as kube-controller-manager does, with as many workers, until ctx ends.
// The second configuration is for its metadata client, which has a rate limit of its own in kube-controller-manager.
// ended is closed when all its goroutines have ended.
func Start(ctx context.Context, config, metaConfig *rest.Config) (ended <-chan struct{}, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(metadata.ConfigFor(metaConfig))
	if err != nil {
		return nil, err
	}
	started := make(chan struct{})
	close(started)
	gc, err := garbagecollector.NewGarbageCollector(ctx, kube, meta,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery())),
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(informers.NewSharedInformerFactory(kube, 0), metadatainformer.NewSharedInformerFactory(meta, 0)),
		started)
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { gc.Run(ctx, 20, 2*time.Minute) })
	running.Go(func() { gc.Sync(ctx, kube.Discovery(), 30*time.Second) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Wait()
	}()
	return done, nil
}
