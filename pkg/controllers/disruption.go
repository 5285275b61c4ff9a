package controllers

import (
	"context"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/disruption"
)

// newDisruption counts for each PodDisruptionBudget how many pods may be evicted.
func newDisruption(ctx context.Context, p parts) (run, error) {
	// Discovery is asked when a budget selects pods of a kind that the controller does not know.
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.client.Discovery()))
	scales, err := scale.NewForConfig(p.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(p.client.Discovery()))
	if err != nil {
		return nil, err
	}
	return withWorkers(disruption.NewDisruptionController(ctx, p.caches.core().Pods(), p.caches.policy().PodDisruptionBudgets(),
		p.caches.core().ReplicationControllers(), p.caches.apps().ReplicaSets(), p.caches.apps().Deployments(), p.caches.apps().StatefulSets(),
		p.client, mapper, scales, p.client.Discovery()).Run), nil
}
