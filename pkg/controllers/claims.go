package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
)

// newResourceClaim makes the ResourceClaims of pods from templates, and deletes them when their pods have ended.
func newResourceClaim(ctx context.Context, p parts) (run, error) {
	// It asks for pod groups only if their features are on.
	groups := scheduling.New(p.caches, metav1.NamespaceAll, nil).V1beta1().PodGroups()
	c, err := resourceclaim.NewController(klog.FromContext(ctx), p.client, p.caches.core().Pods(), groups,
		p.caches.resource().ResourceClaims(), p.caches.resource().ResourceClaimTemplates())
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}
