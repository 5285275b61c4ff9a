package integration

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClusterRolesAreAggregated: those that come with Kubernetes, and a role that is made later adds to
// one of them until it is deleted.
func TestClusterRolesAreAggregated(t *testing.T) {
	s := shared(t)
	says := func(role, what string) func(context.Context) (bool, any) {
		return func(ctx context.Context) (bool, any) {
			r, err := s.kube.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			rules := asJSON(t, r.Rules)
			return strings.Contains(rules, what), rules
		}
	}
	for role, what := range map[string]string{"admin": `"rolebindings"`, "edit": `"deployments"`, "view": `"pods"`} {
		await(t, role+" to hold "+what, says(role, what))
	}
	more := object(clusterRoles, "aggregated-for-test")
	more.SetLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"})
	more.Object["rules"] = []any{map[string]any{"apiGroups": []any{testGroup}, "resources": []any{"aggregated"}, "verbs": []any{"get"}}}
	more, err := s.dyn.Resource(clusterRoles.gvr).Create(t.Context(), more, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "view to hold what was added", says("view", `"aggregated"`))
	s.delete(t, clusterRoles, more)
	await(t, "view to have lost it", func(ctx context.Context) (bool, any) {
		holds, rules := says("view", `"aggregated"`)(ctx)
		return !holds, rules
	})
}
