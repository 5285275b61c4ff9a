package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// countingPods is the client of Kubernetes' namespace controller. That controller deletes a namespace's pods before
// everything else; while some remain it writes its conditions without having counted them, so that they say that all
// content is gone. Here those conditions are corrected on their way to the API server.
type countingPods struct{ kubernetes.Interface }

// CoreV1 returns a pointer: the controller asks by reflection whether it is nil.
func (c countingPods) CoreV1() typedcorev1.CoreV1Interface {
	return &countingPodsCore{c.Interface.CoreV1()}
}

type countingPodsCore struct{ typedcorev1.CoreV1Interface }

func (c *countingPodsCore) Namespaces() typedcorev1.NamespaceInterface {
	return countingPodsNamespaces{c.CoreV1Interface.Namespaces(), c.CoreV1Interface}
}

type countingPodsNamespaces struct {
	typedcorev1.NamespaceInterface
	pods typedcorev1.PodsGetter
}

// UpdateStatus writes nothing if the corrected conditions are those that the namespace has: the controller, which compares
// with what it meant to write, would write them at each of its attempts.
func (c countingPodsNamespaces) UpdateStatus(ctx context.Context, ns *corev1.Namespace, o metav1.UpdateOptions) (*corev1.Namespace, error) {
	if !claimsEmpty(ns) {
		return c.NamespaceInterface.UpdateStatus(ctx, ns, o)
	}
	pods, err := c.pods.Pods(ns.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("counting the pods that remain in namespace %s: %w", ns.Name, err)
	}
	if len(pods.Items) == 0 {
		return c.NamespaceInterface.UpdateStatus(ctx, ns, o)
	}
	current, err := c.Get(ctx, ns.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	corrected := ns.DeepCopy()
	for _, condition := range remainingConditions(pods.Items) {
		setCondition(corrected, condition)
	}
	if keepTransitions(corrected, current) {
		return current, nil
	}
	return c.NamespaceInterface.UpdateStatus(ctx, corrected, o)
}

// claimsEmpty reports whether the conditions of a namespace say that no content remains.
func claimsEmpty(ns *corev1.Namespace) bool {
	at := conditionAt(ns, corev1.NamespaceContentRemaining)
	return at >= 0 && ns.Status.Conditions[at].Status == corev1.ConditionFalse
}

func conditionAt(ns *corev1.Namespace, of corev1.NamespaceConditionType) int {
	return slices.IndexFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == of })
}

func setCondition(ns *corev1.Namespace, condition corev1.NamespaceCondition) {
	if at := conditionAt(ns, condition.Type); at >= 0 {
		ns.Status.Conditions[at] = condition
		return
	}
	ns.Status.Conditions = append(ns.Status.Conditions, condition)
}

// remainingConditions returns the conditions that the namespace controller has for other resources, word for word.
func remainingConditions(pods []corev1.Pod) []corev1.NamespaceCondition {
	now := metav1.Now()
	conditions := []corev1.NamespaceCondition{{
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "SomeResourcesRemain",
		Message: fmt.Sprintf("Some resources are remaining: pods. has %d resource instances", len(pods)),
	}}
	held := map[string]int{} // by finalizer
	for i := range pods {
		for _, f := range pods[i].Finalizers {
			held[f]++
		}
	}
	if len(held) == 0 {
		return conditions
	}
	finalizers := make([]string, 0, len(held))
	for f, n := range held {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", f, n))
	}
	slices.Sort(finalizers)
	return append(conditions, corev1.NamespaceCondition{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "SomeFinalizersRemain",
		Message: "Some content in the namespace has finalizers remaining: " + strings.Join(finalizers, ", "),
	})
}

// keepTransitions gives ns the transition times of current for the conditions whose status is the same, and reports
// whether all of its conditions are those of current.
func keepTransitions(ns, current *corev1.Namespace) (same bool) {
	same = ns.Status.Phase == current.Status.Phase && len(ns.Status.Conditions) == len(current.Status.Conditions)
	for i := range ns.Status.Conditions {
		c := &ns.Status.Conditions[i]
		at := conditionAt(current, c.Type)
		if at < 0 {
			same = false
			continue
		}
		was := current.Status.Conditions[at]
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		same = same && was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message
	}
	return same
}
