package controllers

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

func newReplicationController(ctx context.Context, p parts) (run, error) {
	return withWorkers(replication.NewReplicationManager(ctx, p.caches.core().Pods(), p.caches.core().ReplicationControllers(),
		p.client, replication.BurstReplicas).Run), nil
}

func newReplicaSet(ctx context.Context, p parts) (run, error) {
	return withWorkers(replicaset.NewReplicaSetController(ctx, p.caches.apps().ReplicaSets(), p.caches.core().Pods(),
		p.client, replicaset.BurstReplicas).Run), nil
}

func newDeployment(ctx context.Context, p parts) (run, error) {
	c, err := deployment.NewDeploymentController(ctx, p.caches.apps().Deployments(), p.caches.apps().ReplicaSets(),
		p.caches.core().Pods(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newStatefulSet(ctx context.Context, p parts) (run, error) {
	return withWorkers(statefulset.NewStatefulSetController(ctx, p.caches.core().Pods(), p.caches.apps().StatefulSets(),
		p.caches.core().PersistentVolumeClaims(), p.caches.apps().ControllerRevisions(), p.client).Run), nil
}

func newDaemonSet(ctx context.Context, p parts) (run, error) {
	// How long a node waits for another pod when its last ones have failed, as in
	// kube-controller-manager.
	backoff := flowcontrol.NewBackOff(time.Second, 15*time.Minute)
	c, err := daemon.NewDaemonSetsController(ctx, p.caches.apps().DaemonSets(), p.caches.apps().ControllerRevisions(),
		p.caches.core().Pods(), p.caches.core().Nodes(), p.client, backoff)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}
