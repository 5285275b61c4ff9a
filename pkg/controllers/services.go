package controllers

import (
	"context"
	"time"

	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

// As in kube-controller-manager: changes are not collected for a while, and a slice or subset has this many endpoints at most.
const (
	batchPeriod    = time.Duration(0)
	perSlice       = 100
	mirroredSubset = 1000
)

func newEndpoints(ctx context.Context, p parts) (run, error) {
	return withWorkers(endpoint.NewEndpointController(ctx, p.caches.core().Pods(), p.caches.core().Services(), p.caches.core().Endpoints(),
		p.client, batchPeriod).Run), nil
}

func newEndpointSlice(ctx context.Context, p parts) (run, error) {
	return withWorkers(endpointslice.NewController(ctx, p.caches.core().Pods(), p.caches.core().Services(), p.caches.core().Nodes(),
		p.caches.discovery().EndpointSlices(), perSlice, p.client, batchPeriod).Run), nil
}

func newEndpointSliceMirroring(ctx context.Context, p parts) (run, error) {
	return withWorkers(endpointslicemirroring.NewController(ctx, p.caches.core().Endpoints(), p.caches.discovery().EndpointSlices(),
		p.caches.core().Services(), mirroredSubset, p.client, batchPeriod).Run), nil
}
