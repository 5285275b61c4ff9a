package controllers

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/podgc"
)

// terminatedPods is how many finished pods stay, as in kube-controller-manager.
const terminatedPods = 12500

// newPodGC collects the pods of nodes that do not exist, which no kubelet will ever
// end.
func newPodGC(ctx context.Context, p parts) (run, error) {
	return podgc.NewPodGC(ctx, p.client, p.caches.core().Pods(), p.caches.core().Nodes(), terminatedPods).Run, nil
}
