//go:build releasetest

package clients

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// terminating waits until n pods of the namespace are being deleted.
func (c *cluster) terminating(t *testing.T, ns string, n int) {
	t.Helper()
	eventually(t, "pods to be Terminating", func(context.Context) (bool, error) {
		found := 0
		for _, p := range c.pods(t, ns) {
			if p.DeletionTimestamp != nil {
				found++
			}
		}
		return found == n, nil
	})
}

// TestPodsOfAStoppedNodeStayUntilItIsOutOfService: no controller of reap's looks at a node's lease. The node stays Ready and
// its pods Running; pods that are deleted wait for it, and so does who waits for them. The taint of a node that is not coming
// back ends them, as it does in Kubernetes.
func TestPodsOfAStoppedNodeStayUntilItIsOutOfService(t *testing.T) {
	t.Parallel()
	c := own(t)
	ns := c.namespace(t)
	d := c.deploy(t, ns, newDeployment(3, podOn("node", 1)))
	must(t, c.kwok.stop()) // as if the machine had lost its power
	must(t, c.AppsV1().Deployments(ns).Delete(t.Context(), d.Name, foreground))
	c.terminating(t, ns, 3)
	node, err := c.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
	must(t, err)
	if !nodeReady(node) || len(node.Spec.Taints) > 0 {
		t.Errorf("somebody has noticed that the node has stopped: %+v, %+v", node.Status.Conditions, node.Spec.Taints)
	}
	c.mustHavePods(t, ns, 3, corev1.PodRunning)

	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			node.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
	}
	_, err = c.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must(t, err)
	_, err = c.CoreV1().Nodes().Patch(t.Context(), "node", types.StrategicMergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	must(t, err)
	gone(t, c.AppsV1().Deployments(ns).Get, d.Name)
	c.mustHavePods(t, ns, 0, "")
}
