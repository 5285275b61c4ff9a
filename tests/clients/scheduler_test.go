//go:build releasetest

package clients

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// beside starts a program that ends with the test.
func beside(t *testing.T, dir, name string, args ...string) *process {
	t.Helper()
	p, err := launch(dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.stop()
		if err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log of %s ends with\n%s", name, p.tail())
		}
	})
	return p
}

// scheduler starts Kubernetes' as docs/kwok.md says.
func scheduler(t *testing.T, c *cluster) {
	t.Helper()
	beside(t, c.dir, "kube-scheduler", "--kubeconfig", c.server.Kubeconfig, "--leader-elect=false", "--secure-port=0")
}

func TestTheSchedulerSpreadsPodsOverSimulatedNodes(t *testing.T) {
	t.Parallel()
	c := own(t)
	for _, name := range []string{"two", "three"} {
		must(t, c.addNode(t.Context(), name))
	}
	scheduler(t, c)
	ns := c.namespace(t)
	c.deploy(t, ns, newDeployment(30, podOn("", 1)))
	on := map[string]int{}
	for _, p := range c.pods(t, ns) {
		on[p.Spec.NodeName]++
	}
	if len(on) != 3 || on[""] > 0 {
		t.Errorf("the pods are on the nodes %v", on)
	}

	other := c.namespace(t)
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: podOn("", 1)}}
	_, err := c.AppsV1().DaemonSets(other).Create(t.Context(), set, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "a ready pod on each node", func(ctx context.Context) (bool, error) {
		now, err := c.AppsV1().DaemonSets(other).Get(ctx, set.Name, metav1.GetOptions{})
		return err == nil && now.Status.NumberAvailable == 3, nil
	})
	must(t, c.AppsV1().DaemonSets(other).Delete(t.Context(), set.Name, foreground))
	gone(t, c.AppsV1().DaemonSets(other).Get, set.Name)
	c.mustHavePods(t, other, 0, "")
	must(t, c.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	gone(t, c.CoreV1().Namespaces().Get, ns)
}
