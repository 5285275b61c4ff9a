package controllers

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
)

// newClusterRoleAggregation fills admin, edit and view, which are empty without it.
func newClusterRoleAggregation(_ context.Context, p parts) (run, error) {
	return withWorkers(clusterroleaggregation.NewClusterRoleAggregation(p.caches.rbac().ClusterRoles(), p.client.RbacV1()).Run), nil
}
