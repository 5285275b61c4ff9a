package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/report"
)

const repset = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: owner}
spec:
  replicas: 2
  selector: {matchLabels: {app: test}}
  template:` + podTemplate

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: single, labels: {app: test}}
spec: {containers: [{name: nginx, image: nginx}]}
`

// TestReplicaSetAdoptsAndReleases has a pod that is there before the ReplicaSet that selects it. When its
// label changes, it is nobody's, outlives the ReplicaSet, and another has its place.
func TestReplicaSetAdoptsAndReleases(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "adopts")
	single := s.from(t, pods, ns, pod)
	o := s.from(t, replicaSets, ns, repset)
	adopted := s.awaitOwners(t, pods, single, 1)
	if got, want := asJSON(t, adopted.GetOwnerReferences()), asJSON(t, []metav1.OwnerReference{controlledBy(o)}); got != want {
		t.Errorf("adopted by\n%s and not by\n%s", got, want)
	}
	s.awaitOwned(t, 2, pods, ns, o)

	_, err := s.dyn.Resource(pods.gvr).Namespace(ns).Patch(t.Context(), single.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitOwners(t, pods, single, 0)
	s.awaitCount(t, 3, pods, ns)
	s.deleteAs(t, replicaSets, o, foreground)
	s.awaitGone(t, replicaSets, o)
	s.awaitCount(t, 1, pods, ns)
	s.mustExist(t, pods, single)
	s.deleteAs(t, pods, single, background)
	s.awaitGone(t, pods, single)
}

// bind says that a pod runs on a machine, as a scheduler would.
func (s *server) bind(t *testing.T, o *unstructured.Unstructured, node string) {
	t.Helper()
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := s.kube.CoreV1().Pods(o.GetNamespace()).Bind(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestBoundPodWaitsForItsKubelet which does not run: deleted, it stays, and holds what waits for it, until
// somebody deletes it by force.
func TestBoundPodWaitsForItsKubelet(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "bound")
	n := s.node(t, "bound")
	o := s.from(t, replicaSets, ns, repset)
	owned := s.awaitOwned(t, 2, pods, ns, o)
	s.bind(t, owned[0], n.GetName())
	s.deleteAs(t, replicaSets, o, foreground)
	s.awaitGone(t, pods, owned[1])
	s.awaitDeleting(t, pods, owned[0])
	s.foregroundBarrier(t, configMaps, ns)
	s.mustExist(t, pods, owned[0])
	s.mustWait(t, replicaSets, o)
	now := int64(0)
	s.deleteWith(t, pods, owned[0], metav1.DeleteOptions{GracePeriodSeconds: &now})
	s.awaitGone(t, pods, owned[0])
	s.awaitGone(t, replicaSets, o)
}

// TestPodsOfADeletedNodeAreCollected a minute later, since a Node may come back; their ReplicaSet makes
// others.
func TestPodsOfADeletedNodeAreCollected(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a minute")
	}
	s := shared(t)
	ns := s.namespace(t, "node-gone")
	n := s.node(t, "node-gone")
	o := s.from(t, replicaSets, ns, repset)
	lost := s.awaitOwned(t, 2, pods, ns, o)
	for _, p := range lost {
		s.bind(t, p, n.GetName())
	}
	s.deleteAs(t, pods, lost[0], background) // waits for its kubelet
	s.deleteAs(t, nodes, n, background)
	awaitWithin(t, 2*patience, "the pods of the node to go", func(ctx context.Context) (bool, any) {
		for _, p := range lost {
			if there, err := s.exists(ctx, pods, p); there || err != nil {
				return false, fmt.Sprint(p.GetName(), " is there (", err, ")")
			}
		}
		return true, nil
	})
	s.awaitOwned(t, 2, pods, ns, o)
	s.deleteAs(t, replicaSets, o, foreground)
	s.awaitGone(t, replicaSets, o)
}

const toFinish = `
apiVersion: batch/v1
kind: Job
metadata: {name: owner}
spec:
  ttlSecondsAfterFinished: 0
  completions: 2
  parallelism: 2` + jobSpec

// The test reports that the Job's pods have succeeded, as their kubelets would.
func TestFinishedJobIsDeleted(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "finished")
	o := s.from(t, jobs, ns, toFinish)
	owned := s.awaitOwned(t, 2, pods, ns, o)
	s.patchStatus(t, pods, owned[0], map[string]any{"phase": "Succeeded"})
	await(t, "a pod to count", func(ctx context.Context) (bool, any) {
		j, err := s.kube.BatchV1().Jobs(ns).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return j.Status.Succeeded == 1, fmt.Sprint(j.Status)
	})
	s.patchStatus(t, pods, owned[1], map[string]any{"phase": "Succeeded"})
	s.awaitGone(t, jobs, o)
	s.awaitCount(t, 0, pods, ns)
}

// TestPodOfADeletedJobIsForetold: the pod of a Job has not finished, and a finalizer of the Job controller holds it. The plan says that
// it goes, and it goes. --all takes the Jobs of the namespace, and is no error once there is none.
func TestPodOfADeletedJobIsForetold(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "unfinished")
	for cascade, left := range map[string]int{"background": 0, "foreground": 0, "orphan": 2} {
		o := s.from(t, jobs, ns, strings.Replace(toFinish, "name: owner", "name: "+cascade, 1))
		s.awaitOwned(t, 2, pods, ns, o)
		await(t, "the right plan with --cascade="+cascade, func(context.Context) (bool, any) {
			var p report.Plan // of a collector that may not have seen both pods yet
			fromJSON(t, s.must(t, "plan", "delete", "jobs", "--all", "-n", ns, "--cascade="+cascade, "-o", "json"), &p)
			return p.Totals.Stuck == 0 && p.Totals.Gone == 3-left && p.Totals.Freed == left, p.Totals
		})
		if out, errs, code := s.run(t, "delete", "jobs", "--all", "-n", ns, "--cascade="+cascade, "--yes"); code != 0 {
			t.Errorf("--cascade=%s: exit code %d, %s%s", cascade, code, out, errs)
		}
		s.awaitGone(t, jobs, o)
		s.awaitCount(t, left, pods, ns)
		if err := s.kube.CoreV1().Pods(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		s.awaitCount(t, 0, pods, ns)
	}
	if out, errs, code := s.run(t, "delete", "jobs", "--all", "-n", ns, "--yes"); code != 0 || !strings.Contains(errs, "no object matches; nothing was deleted") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	for _, refused := range []string{"jobs/x --all", "jobs x --all", "jobs --all -l a=b", "--all", "jobs --all -f x.yaml"} {
		if out, errs, code := s.run(t, append([]string{"delete", "-n", ns, "--yes"}, strings.Fields(refused)...)...); code != 2 || !strings.Contains(errs, "--all") {
			t.Errorf("%s: exit code %d, %s%s", refused, code, out, errs)
		}
	}
}
