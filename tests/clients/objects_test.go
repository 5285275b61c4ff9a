package clients

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const poll = 20 * time.Millisecond

var foreground, background = inPolicy(metav1.DeletePropagationForeground), inPolicy(metav1.DeletePropagationBackground)

func inPolicy(policy metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podOn is a pod's template, for a node that is named or, if it is "", for one that a scheduler chooses.
func podOn(node string, grace int64) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func newDeployment(replicas int32, template corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(), Template: template},
	}
}

// namespace makes one for the test; it is deleted at the test's end.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	n, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := c.CoreV1().Namespaces().Delete(context.Background(), n.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	eventually(t, "the namespace's ServiceAccount", func(ctx context.Context) (bool, error) {
		_, err := c.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	return n.Name
}

// deploy makes a Deployment and waits until all its pods are available.
func (c *cluster) deploy(t *testing.T, ns string, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	d, err := c.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment's pods to be available", func(ctx context.Context) (bool, error) {
		now, err := c.AppsV1().Deployments(ns).Get(ctx, d.Name, metav1.GetOptions{})
		return err == nil && now.Status.AvailableReplicas == *d.Spec.Replicas, nil
	})
	return d
}

// pods returns those of the namespace.
func (c *cluster) pods(t *testing.T, ns string) []corev1.Pod {
	t.Helper()
	all, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// mustHavePods ends the test unless the namespace has n pods, all in the phase.
func (c *cluster) mustHavePods(t *testing.T, ns string, n int, phase corev1.PodPhase) []corev1.Pod {
	t.Helper()
	return mustBe(t, c.pods(t, ns), n, phase)
}

// mustBe ends the test unless there are n pods, all in the phase.
func mustBe(t *testing.T, all []corev1.Pod, n int, phase corev1.PodPhase) []corev1.Pod {
	t.Helper()
	in := map[corev1.PodPhase]int{}
	for _, p := range all {
		in[p.Status.Phase]++
	}
	if len(all) != n || in[phase] != n {
		t.Fatalf("there are pods in the phases %v; there should be %d %s", in, n, phase)
	}
	return all
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// gone waits until a read answers that there is no such object.
func gone[T any](t *testing.T, get func(context.Context, string, metav1.GetOptions) (T, error), name string) {
	t.Helper()
	eventually(t, name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endings is what a watch has seen of the pods of a namespace. One that has completed has no grace period and does not count.
type endings struct {
	gone  int
	early []string // pods that went before the time that their deletionTimestamp named
}

// watchEndings watches the pods of a namespace from now on. The function it returns waits until n pods have gone.
func (c *cluster) watchEndings(t *testing.T, ns string) func(n int) endings {
	t.Helper()
	w, err := c.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	t.Cleanup(w.Stop)
	ends := make(chan string, many) // "" for each pod, or its name if it went too early
	go func() {
		defer close(ends)
		// When each pod is to end, as first announced: ending it brings its deletionTimestamp forward.
		announced := map[string]time.Time{}
		for e := range w.ResultChan() {
			p, is := e.Object.(*corev1.Pod)
			if !is {
				return
			}
			if _, known := announced[p.Name]; !known && p.DeletionTimestamp != nil {
				announced[p.Name] = p.DeletionTimestamp.Time
			}
			if e.Type != watch.Deleted || p.Status.Phase != corev1.PodRunning {
				continue
			}
			if end, known := announced[p.Name]; known && !time.Now().Before(end) {
				ends <- ""
			} else {
				ends <- p.Name
			}
		}
	}()
	return func(n int) (seen endings) {
		t.Helper()
		late := time.After(patience)
		for seen.gone < n {
			select {
			case early, open := <-ends:
				if !open {
					t.Fatal("the watch of pods has ended")
				}
				seen.gone++
				if early != "" {
					seen.early = append(seen.early, early)
				}
			case <-late:
				t.Fatalf("%d pods have gone, and not %d", seen.gone, n)
			}
		}
		return seen
	}
}
