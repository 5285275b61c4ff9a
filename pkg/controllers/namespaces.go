package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

func newNamespace(ctx context.Context, p parts) (run, error) {
	objects, err := metadata.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, countingPods{p.client}, objects, p.client.Discovery().ServerPreferredNamespacedResources,
		p.caches.core().Namespaces(), 0, corev1.FinalizerKubernetes)
	return withWorkers(c.Run), nil
}

func newServiceAccount(ctx context.Context, p parts) (run, error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), p.caches.core().ServiceAccounts(),
		p.caches.core().Namespaces(), p.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newRootCAPublisher(_ context.Context, p parts) (run, error) {
	c, err := rootcacertpublisher.NewPublisher(p.caches.rootCAs(), p.caches.core().Namespaces(), p.client, p.rootCA)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}
