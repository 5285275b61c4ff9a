package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// emptied returns a namespace as Kubernetes' controller writes it while pods remain: its conditions say that all is gone.
func emptied(transition time.Time) *corev1.Namespace {
	now := metav1.Now()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "held", DeletionTimestamp: &now, Finalizers: []string{"x/y"}}}
	ns.Status.Phase = corev1.NamespaceTerminating
	for _, c := range []corev1.NamespaceConditionType{corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining} {
		ns.Status.Conditions = append(ns.Status.Conditions, corev1.NamespaceCondition{Type: c, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(transition), Reason: "R"})
	}
	return ns
}

// TestNamespaceNamesThePodsThatHoldIt: the conditions name the pods and their finalizers as long as there are any, are written
// once, and say that nothing remains afterwards.
func TestNamespaceNamesThePodsThatHoldIt(t *testing.T) {
	client := fake.NewClientset(emptied(time.Unix(1, 0)),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "held", Name: "a", Finalizers: []string{"example.com/hold", "example.com/a"}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "held", Name: "b", Finalizers: []string{"example.com/hold"}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "c"}},
	)
	writes := 0
	client.PrependReactor("update", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		return false, nil, nil
	})
	namespaces := countingPods{client}.CoreV1().Namespaces()
	update := func(wantWrites int, remaining, finalizers string) {
		t.Helper()
		if _, err := namespaces.UpdateStatus(t.Context(), emptied(time.Unix(2, 0)), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := client.CoreV1().Namespaces().Get(t.Context(), "held", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for condition, want := range map[corev1.NamespaceConditionType]string{corev1.NamespaceContentRemaining: remaining, corev1.NamespaceFinalizersRemaining: finalizers} {
			c := got.Status.Conditions[conditionAt(got, condition)]
			if (c.Status == corev1.ConditionTrue) != (want != "") || !strings.HasSuffix(c.Message, want) {
				t.Errorf("%s is %s and says %q; want %q", condition, c.Status, c.Message, want)
			}
		}
		if c := got.Status.Conditions[0]; remaining != "" && !c.LastTransitionTime.Time.Equal(time.Unix(1, 0)) {
			t.Errorf("the transition of %s, which did not change, is at %v", c.Type, c.LastTransitionTime)
		}
		if writes != wantWrites {
			t.Errorf("%d writes, want %d", writes, wantWrites)
		}
	}
	held := "example.com/a in 1 resource instances, example.com/hold in 2 resource instances"
	update(1, "pods. has 2 resource instances", held)
	update(1, "pods. has 2 resource instances", held)
	if err := client.CoreV1().Pods("held").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	update(2, "pods. has 1 resource instances", "example.com/hold in 1 resource instances")
	if err := client.CoreV1().Pods("held").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	update(3, "", "")
}
