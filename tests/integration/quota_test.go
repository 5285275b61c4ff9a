package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// quotaOf limits pods, and ConfigMaps beside the one of the root CA. It allows no Secret: see quota.
const quotaOf = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: test}
spec: {hard: {pods: "2", count/configmaps: "2", count/secrets: "0"}}
`

// quota makes a quota and waits until it is counted and admission knows that, as a refused Secret shows.
func (s *server) quota(t *testing.T, ns, manifest string) {
	t.Helper()
	s.from(t, quotas, ns, manifest)
	s.awaitEnforced(t, ns)
}

func (s *server) awaitEnforced(t *testing.T, ns string) {
	t.Helper()
	await(t, "the quota to refuse", func(ctx context.Context) (bool, any) {
		_, err := s.dyn.Resource(secrets.gvr).Namespace(ns).Create(ctx, object(secrets, "refused"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return exceeds(err), err
	})
}

// exceeds reports whether an object was refused because it exceeds the quota.
func exceeds(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: test")
}

// uncounted reports whether an object was refused because admission does not know yet what a quota has counted.
func uncounted(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "status unknown for quota: test")
}

// awaitUsed waits until a quota counts so many of a resource.
func (s *server) awaitUsed(t *testing.T, ns string, of corev1.ResourceName, n int64) {
	t.Helper()
	awaitWithin(t, 2*patience, fmt.Sprintf("%d of %s to count in %s", n, of, ns), func(ctx context.Context) (bool, any) {
		q, err := s.kube.CoreV1().ResourceQuotas(ns).Get(ctx, "test", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		used, counted := q.Status.Used[of]
		return counted && used.Value() == n, q.Status
	})
}

// mustBeRefused creates an object that exceeds the quota.
func (s *server) mustBeRefused(t *testing.T, k kind, ns, manifest string) {
	t.Helper()
	_, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(t.Context(), parsed(t, manifest), metav1.CreateOptions{})
	if !exceeds(err) {
		t.Errorf("a %s that exceeds the quota: %v", k.kind, err)
	}
}

// awaitRoom creates an object as soon as the quota allows that: admission learns of the count a moment later.
func (s *server) awaitRoom(t *testing.T, k kind, ns, manifest string) (o *unstructured.Unstructured) {
	t.Helper()
	await(t, "room for a "+k.kind, func(ctx context.Context) (bool, any) {
		var err error
		if o, err = s.dyn.Resource(k.gvr).Namespace(ns).Create(ctx, parsed(t, manifest), metav1.CreateOptions{}); err != nil && !exceeds(err) && !uncounted(err) {
			t.Fatal(err)
		}
		return err == nil, err
	})
	return o
}

const single = `
apiVersion: v1
kind: ConfigMap
metadata: {name: single}
`

// TestQuotaIsCountedAndRefuses what exceeds it, until a cascade has made room.
func TestQuotaIsCountedAndRefuses(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "quota")
	s.quota(t, ns, quotaOf)
	s.awaitUsed(t, ns, "count/configmaps", 1)
	s.awaitUsed(t, ns, "pods", 0)

	o := s.from(t, replicaSets, ns, repset)
	s.awaitOwned(t, 2, pods, ns, o)
	s.awaitUsed(t, ns, "pods", 2)
	s.mustBeRefused(t, pods, ns, pod)
	s.create(t, configMaps, ns, "dependent", owner(o))
	s.awaitUsed(t, ns, "count/configmaps", 2)
	s.mustBeRefused(t, configMaps, ns, single)

	s.deleteAs(t, replicaSets, o, foreground)
	s.awaitGone(t, replicaSets, o)
	s.awaitUsed(t, ns, "pods", 0)
	s.awaitUsed(t, ns, "count/configmaps", 1)
	s.awaitRoom(t, pods, ns, pod)
	s.awaitRoom(t, configMaps, ns, single)
}

// TestQuotaCountsCustomResources that are defined while the quota is there, and does without those that are gone.
func TestQuotaCountsCustomResources(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ns := s.namespace(t, "custom-quota")
	of := corev1.ResourceName("count/coins." + testGroup)
	s.quota(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: test}
spec: {hard: {%s: "1", pods: "1", count/secrets: "0"}}
`, of))
	coins, crd := s.define(t, "Namespaced", "coins", "Coin")
	s.awaitUsed(t, ns, of, 0) // within a minute and a half
	const coin = "{apiVersion: " + testGroup + "/v1, kind: Coin, metadata: {generateName: coin-}}"
	o := s.awaitRoom(t, coins, ns, coin)
	s.awaitUsed(t, ns, of, 1)
	s.mustBeRefused(t, coins, ns, coin)
	s.deleteAs(t, coins, o, background)
	s.awaitUsed(t, ns, of, 0)
	s.awaitRoom(t, coins, ns, coin)

	s.deleteAs(t, definitions, crd, background)
	s.awaitGone(t, definitions, crd)
	s.awaitUsed(t, ns, of, 0)
	p := s.from(t, pods, ns, pod)
	s.awaitUsed(t, ns, "pods", 1)
	s.deleteAs(t, pods, p, background)
	s.awaitUsed(t, ns, "pods", 0)
}
