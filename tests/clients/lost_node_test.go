//go:build releasetest

package clients

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsOfADeletedNodeGo about a minute later: pod garbage collection waits for the node to come back. Its lease, which kwok
// gives the node as its owner, goes at once.
func TestPodsOfADeletedNodeGo(t *testing.T) {
	t.Parallel()
	c := own(t)
	must(t, c.addNode(t.Context(), "lost"))
	ns := c.namespace(t)
	d := c.deploy(t, ns, newDeployment(3, podOn("lost", 1)))
	leases := c.CoordinationV1().Leases("kube-node-lease")
	lease, err := leases.Get(t.Context(), "lost", metav1.GetOptions{})
	must(t, err)
	if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Kind != "Node" {
		t.Errorf("the lease's owners are %+v", lease.OwnerReferences)
	}
	lost := c.pods(t, ns)
	must(t, c.CoreV1().Nodes().Delete(t.Context(), "lost", metav1.DeleteOptions{}))
	gone(t, leases.Get, "lost")
	for _, p := range lost {
		gone(t, c.CoreV1().Pods(ns).Get, p.Name)
	}
	// Their successors are for the same node, since the template names it. They wait for it, or for the next minute.
	eventually(t, "three other pods", func(context.Context) (bool, error) { return len(c.pods(t, ns)) == 3, nil })
	c.mustHavePods(t, ns, 3, corev1.PodPending)
	must(t, c.addNode(t.Context(), "lost"))
	eventually(t, "them to run on the new node of that name", func(ctx context.Context) (bool, error) {
		now, err := c.AppsV1().Deployments(ns).Get(ctx, d.Name, metav1.GetOptions{})
		return err == nil && now.Status.AvailableReplicas == 3, nil
	})
	must(t, c.AppsV1().Deployments(ns).Delete(t.Context(), d.Name, foreground))
	gone(t, c.AppsV1().Deployments(ns).Get, d.Name)
	c.mustHavePods(t, ns, 0, "")
}

// TestKubernetesEvictsPodsOfAStoppedNode: its node lifecycle controller runs beside reap, notices that a lease is not renewed,
// taints the node and evicts its pods. The scheduler finds another node for their successors.
func TestKubernetesEvictsPodsOfAStoppedNode(t *testing.T) {
	t.Parallel()
	c := own(t)
	must(t, c.kwok.stop())
	must(t, c.CoreV1().Nodes().Delete(t.Context(), "node", metav1.DeleteOptions{}))
	// One kwok for each node, so that one can stop.
	processes := map[string]*process{}
	for _, name := range []string{"one", "two"} {
		p, err := c.newKwok(t.Context(), "--manage-single-node="+name)
		must(t, err)
		t.Cleanup(func() {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
		processes[name], c.kwok = p, p
		must(t, c.addNode(t.Context(), name))
	}
	scheduler(t, c)
	beside(t, c.dir, "kube-controller-manager", "--kubeconfig", c.server.Kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=node-lifecycle-controller,taint-eviction-controller",
		"--node-monitor-period=1s", "--node-monitor-grace-period=25s") // kwok renews a lease each ten seconds
	ns := c.namespace(t)
	template := podOn("", 1)
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		template.Spec.Tolerations = append(template.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1)),
		})
	}
	d := c.deploy(t, ns, newDeployment(4, template))
	on := map[string][]string{}
	for _, p := range c.pods(t, ns) {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p.Name)
	}
	if len(on["one"]) == 0 || len(on["two"]) == 0 {
		t.Fatalf("the scheduler has chosen %v", on)
	}

	must(t, processes["one"].stop())
	for _, name := range on["one"] {
		eventually(t, "pod "+name+" to be evicted", func(ctx context.Context) (bool, error) {
			p, err := c.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && p.DeletionTimestamp != nil, nil
		})
	}
	eventually(t, "four pods on the other node", func(context.Context) (bool, error) {
		running := 0
		for _, p := range c.pods(t, ns) {
			if p.Spec.NodeName == "two" && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		return running == 4, nil
	})
	// The evicted ones wait for their node.
	must(t, c.AppsV1().Deployments(ns).Delete(t.Context(), d.Name, foreground))
	eventually(t, "the evicted pods alone to be left", func(context.Context) (bool, error) {
		return len(c.pods(t, ns)) == len(on["one"]), nil
	})
	back, err := c.newKwok(t.Context(), "--manage-single-node=one")
	must(t, err)
	t.Cleanup(func() {
		if err := back.stop(); err != nil {
			t.Error(err)
		}
	})
	gone(t, c.AppsV1().Deployments(ns).Get, d.Name)
	c.mustHavePods(t, ns, 0, "")
}
