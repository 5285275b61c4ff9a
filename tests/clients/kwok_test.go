package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newPod(name string, template corev1.PodTemplateSpec) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.Name = name
	return p
}

// running makes a pod and waits until kwok has it running.
func (c *cluster) running(t *testing.T, ns string, p *corev1.Pod) {
	t.Helper()
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "pod "+p.Name+" to run", func(ctx context.Context) (bool, error) {
		now, err := c.CoreV1().Pods(ns).Get(ctx, p.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.PodRunning, nil
	})
}

func TestPodsEndWhenTheirGracePeriodIsOver(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	ends := c.watchEndings(t, ns)
	pods := c.CoreV1().Pods(ns)

	c.running(t, ns, newPod("slow", podOn("node", 3)))
	must(t, pods.Delete(t.Context(), "slow", metav1.DeleteOptions{}))
	slow, err := pods.Get(t.Context(), "slow", metav1.GetOptions{})
	must(t, err)
	if slow.DeletionTimestamp == nil || slow.Status.Phase != corev1.PodRunning {
		t.Errorf("right after its deletion the pod is to end at %v and is %s", slow.DeletionTimestamp, slow.Status.Phase)
	}
	if seen := ends(1); len(seen.early) > 0 {
		t.Errorf("%q ended before the grace period was over", seen.early)
	}

	// A shorter period than the pod's own, and none at all.
	c.running(t, ns, newPod("hour", podOn("node", 3600)))
	must(t, pods.Delete(t.Context(), "hour", metav1.DeleteOptions{}))
	must(t, pods.Delete(t.Context(), "hour", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
	gone(t, pods.Get, "hour")
	c.running(t, ns, newPod("day", podOn("node", 86400)))
	must(t, pods.Delete(t.Context(), "day", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	gone(t, pods.Get, "day")
}

func TestFinalizersHoldPodsAndTheirOwner(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	template := podOn("node", 1)
	template.Finalizers = []string{"example.com/hold"}
	d := c.deploy(t, ns, newDeployment(2, template))
	must(t, c.AppsV1().Deployments(ns).Delete(t.Context(), d.Name, foreground))
	eventually(t, "kwok to have ended the pods", func(context.Context) (bool, error) {
		ended := 0
		for _, p := range c.pods(t, ns) {
			if s := p.DeletionGracePeriodSeconds; s != nil && *s == 0 {
				ended++
			}
		}
		return ended == 2, nil
	})
	held := c.mustHavePods(t, ns, 2, corev1.PodRunning)
	owner, err := c.AppsV1().Deployments(ns).Get(t.Context(), d.Name, metav1.GetOptions{})
	if err != nil || owner.DeletionTimestamp == nil {
		t.Errorf("the Deployment does not wait for its pods: %v", err)
	}
	for _, p := range held {
		_, err := c.CoreV1().Pods(ns).Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
	}
	gone(t, c.AppsV1().Deployments(ns).Get, d.Name)
	c.mustHavePods(t, ns, 0, "")
}

func TestManyPodsOfOneOwnerRunAndGoInTheForeground(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	begin := time.Now()
	d := c.deploy(t, ns, newDeployment(many, podOn("node", 1)))
	available := time.Since(begin)
	c.mustHavePods(t, ns, many, corev1.PodRunning)

	ends := c.watchEndings(t, ns)
	begin = time.Now()
	must(t, c.AppsV1().Deployments(ns).Delete(t.Context(), d.Name, foreground))
	gone(t, c.AppsV1().Deployments(ns).Get, d.Name)
	took := time.Since(begin)
	c.mustHavePods(t, ns, 0, "") // before their owner, not after it
	if seen := ends(many); len(seen.early) > 0 {
		t.Errorf("%d pods ended before their grace period was over, such as %s", len(seen.early), seen.early[0])
	}
	sets, err := c.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 0 {
		t.Errorf("%d ReplicaSets are left (%v)", len(sets.Items), err)
	}
	t.Attr("power", fmt.Sprintf("pods=%d available=%.1fs gone=%.1fs", many, available.Seconds(), took.Seconds()))
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func TestANamespaceWaitsForTheGracePeriodsOfItsPods(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	c.deploy(t, ns, newDeployment(20, podOn("node", 2)))
	c.running(t, ns, newPod("alone", podOn("node", 3)))
	using := podOn("node", 2)
	using.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	_, err := c.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim("data"), metav1.CreateOptions{})
	must(t, err)
	c.running(t, ns, newPod("using", using)) // its claim is held while it is there

	ends := c.watchEndings(t, ns)
	must(t, c.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	gone(t, c.CoreV1().Namespaces().Get, ns)
	if seen := ends(22); len(seen.early) > 0 {
		t.Errorf("%q ended before their grace period was over", seen.early)
	}
}

// newJob is one whose pods kwok completes as soon as they run.
func newJob(name string) *batchv1.Job {
	template := podOn("node", 1)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Completions: new(int32(4)), Parallelism: new(int32(2)), Template: template},
	}
}

func TestJobsCompleteAndAreCleanedUp(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	jobs := c.BatchV1().Jobs(ns)

	kept, err := jobs.Create(t.Context(), newJob("kept"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the Job to complete", func(ctx context.Context) (bool, error) {
		now, err := jobs.Get(ctx, kept.Name, metav1.GetOptions{})
		return err == nil && now.Status.Succeeded == 4 && now.Status.CompletionTime != nil, nil
	})
	for _, p := range c.mustHavePods(t, ns, 4, corev1.PodSucceeded) {
		if len(p.Finalizers) > 0 {
			t.Errorf("pod %s still has the finalizers %q", p.Name, p.Finalizers)
		}
	}
	must(t, jobs.Delete(t.Context(), kept.Name, background))
	gone(t, jobs.Get, kept.Name)
	eventually(t, "the Job's pods to be gone", func(context.Context) (bool, error) { return len(c.pods(t, ns)) == 0, nil })

	short := newJob("short")
	short.Spec.TTLSecondsAfterFinished = new(int32(0))
	_, err = jobs.Create(t.Context(), short, metav1.CreateOptions{})
	must(t, err)
	gone(t, jobs.Get, short.Name)
	eventually(t, "its pods to be gone", func(context.Context) (bool, error) { return len(c.pods(t, ns)) == 0, nil })
}

func TestStatefulSetsGrowShrinkAndGoWithTheirClaims(t *testing.T) {
	t.Parallel()
	c := shared(t)
	ns := c.namespace(t)
	sets, claims := c.AppsV1().StatefulSets(ns), c.CoreV1().PersistentVolumeClaims(ns)
	for _, whenDeleted := range []appsv1.PersistentVolumeClaimRetentionPolicyType{appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType} {
		s := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), Selector: selector(), Template: podOn("node", 1),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim("data")},
				PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
					WhenDeleted: whenDeleted, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				},
			},
		}
		_, err := sets.Create(t.Context(), s, metav1.CreateOptions{})
		must(t, err)
		hasReady := func(n int32) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d pods of the StatefulSet to be ready", n), func(ctx context.Context) (bool, error) {
				now, err := sets.Get(ctx, s.Name, metav1.GetOptions{})
				return err == nil && now.Status.ReadyReplicas == n && now.Status.Replicas == n, nil
			})
		}
		hasReady(3)
		_, err = sets.Patch(t.Context(), s.Name, types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		must(t, err)
		hasReady(1)
		if left := c.mustHavePods(t, ns, 1, corev1.PodRunning); left[0].Name != "db-0" {
			t.Errorf("%s is left, and not the first", left[0].Name)
		}
		must(t, sets.Delete(t.Context(), s.Name, foreground))
		gone(t, sets.Get, s.Name)
		c.mustHavePods(t, ns, 0, "")
		if whenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			for i := range 3 {
				gone(t, claims.Get, fmt.Sprintf("data-db-%d", i))
			}
		}
	}
	left, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 3 {
		t.Errorf("%d claims are left of the StatefulSet that retains its three (%v)", len(left.Items), err)
	}
	for _, l := range left.Items {
		if l.DeletionTimestamp != nil {
			t.Errorf("claim %s is being deleted", l.Name)
		}
	}
}
