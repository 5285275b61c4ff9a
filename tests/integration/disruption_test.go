package integration

import (
	"context"
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var budgets = kind{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, "PodDisruptionBudget"}

const budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: test}
spec: {minAvailable: 1, selector: {matchLabels: {app: test}}}
`

func (s *server) awaitBudget(t *testing.T, ns string, healthy, allowed int32) {
	t.Helper()
	await(t, "the budget's status", func(ctx context.Context) (bool, any) {
		b, err := s.kube.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "test", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		st := b.Status
		return st.ObservedGeneration == b.Generation && st.CurrentHealthy == healthy && st.DisruptionsAllowed == allowed, st
	})
}

// TestBudgetIsCountedAndHolds evicts two ready pods of a ReplicaSet that has to keep one: the second eviction is refused.
func TestBudgetIsCountedAndHolds(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "budget")
	o := s.from(t, replicaSets, ns, repset)
	owned := s.awaitOwned(t, 2, pods, ns, o)
	s.from(t, budgets, ns, budget)
	s.awaitBudget(t, ns, 0, 0)
	for i, p := range owned {
		s.becomeReady(t, p, fmt.Sprint("10.1.2.", i+1))
	}
	s.awaitBudget(t, ns, 2, 1)
	evict := func(name string) error {
		return s.kube.PolicyV1().Evictions(ns).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}})
	}
	if err := evict(owned[0].GetName()); err != nil {
		t.Fatal(err)
	}
	s.awaitGone(t, pods, owned[0])
	if err := evict(owned[1].GetName()); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second eviction: %v", err)
	}
	s.awaitBudget(t, ns, 1, 0)
	s.mustExist(t, pods, owned[1])
}
