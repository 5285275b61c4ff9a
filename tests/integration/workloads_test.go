package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var (
	apps  = schema.GroupVersion{Group: "apps", Version: "v1"}
	batch = schema.GroupVersion{Group: "batch", Version: "v1"}
	rbac  = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}

	pods                   = kind{corev1.SchemeGroupVersion.WithResource("pods"), "Pod"}
	nodes                  = kind{corev1.SchemeGroupVersion.WithResource("nodes"), "Node"}
	accounts               = kind{corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "ServiceAccount"}
	services               = kind{corev1.SchemeGroupVersion.WithResource("services"), "Service"}
	claims                 = kind{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "PersistentVolumeClaim"}
	volumes                = kind{corev1.SchemeGroupVersion.WithResource("persistentvolumes"), "PersistentVolume"}
	quotas                 = kind{corev1.SchemeGroupVersion.WithResource("resourcequotas"), "ResourceQuota"}
	replicationControllers = kind{corev1.SchemeGroupVersion.WithResource("replicationcontrollers"), "ReplicationController"}
	replicaSets            = kind{apps.WithResource("replicasets"), "ReplicaSet"}
	deployments            = kind{apps.WithResource("deployments"), "Deployment"}
	statefulSets           = kind{apps.WithResource("statefulsets"), "StatefulSet"}
	daemonSets             = kind{apps.WithResource("daemonsets"), "DaemonSet"}
	revisions              = kind{apps.WithResource("controllerrevisions"), "ControllerRevision"}
	jobs                   = kind{batch.WithResource("jobs"), "Job"}
	cronJobs               = kind{batch.WithResource("cronjobs"), "CronJob"}
	roles                  = kind{rbac.WithResource("roles"), "Role"}
)

// from makes an object from a manifest.
func (s *server) from(t *testing.T, k kind, ns, manifest string) *unstructured.Unstructured {
	t.Helper()
	o, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(t.Context(), parsed(t, manifest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func parsed(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// controlledBy is the reference that a controller sets.
func controlledBy(o *unstructured.Unstructured) metav1.OwnerReference {
	yes, r := true, blocking(o)
	r.Controller = &yes
	return r
}

// awaitOwned waits until a controller has made n objects of a kind for their owner, and nothing else has
// made any.
func (s *server) awaitOwned(t *testing.T, n int, k kind, ns string, o *unstructured.Unstructured) (owned []*unstructured.Unstructured) {
	t.Helper()
	want := asJSON(t, []metav1.OwnerReference{controlledBy(o)})
	await(t, fmt.Sprintf("%d of %s that %s controls", n, k.gvr.Resource, o.GetName()), func(ctx context.Context) (bool, any) {
		list, err := s.dyn.Resource(k.gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		owned = nil
		for i := range list.Items {
			if got := asJSON(t, list.Items[i].GetOwnerReferences()); got != want {
				return false, fmt.Sprintf("%s has the owners %s", list.Items[i].GetName(), got)
			}
			owned = append(owned, &list.Items[i])
		}
		return len(owned) == n, len(owned)
	})
	return owned
}

const podTemplate = `
    metadata: {labels: {app: test}}
    spec: {containers: [{name: nginx, image: nginx}]}
`

const jobSpec = `
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
`

// workload is something that controllers make pods for.
type workload struct {
	k        kind
	manifest string
	// owns are the generations below it, the last one pods, and how many of each.
	owns []generation
	// orphans tells that its dependents stay when no policy is given.
	orphans bool
	// begin makes its controller begin, if it has to be told.
	begin func(*server, *testing.T, *unstructured.Unstructured)
}

type generation struct {
	k kind
	n int
}

var workloads = []workload{
	{k: replicationControllers, orphans: true, owns: []generation{{pods, 3}}, manifest: `
apiVersion: v1
kind: ReplicationController
metadata: {name: owner}
spec:
  replicas: 3
  selector: {app: test}
  template:` + podTemplate},
	{k: replicaSets, owns: []generation{{pods, 3}}, manifest: `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: owner}
spec:
  replicas: 3
  selector: {matchLabels: {app: test}}
  template:` + podTemplate},
	{k: deployments, owns: []generation{{replicaSets, 1}, {pods, 3}}, manifest: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: owner}
spec:
  replicas: 3
  selector: {matchLabels: {app: test}}
  template:` + podTemplate},
	{k: statefulSets, owns: []generation{{pods, 3}}, manifest: `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: owner}
spec:
  replicas: 3
  serviceName: none
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: test}}
  template:` + podTemplate},
	{k: daemonSets, owns: []generation{{pods, 1}}, manifest: `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: owner}
spec:
  selector: {matchLabels: {app: test}}
  template:` + podTemplate},
	{k: jobs, orphans: true, owns: []generation{{pods, 2}}, manifest: `
apiVersion: batch/v1
kind: Job
metadata: {name: owner}
spec:
  parallelism: 2` + jobSpec},
	{k: cronJobs, owns: []generation{{jobs, 1}, {pods, 1}}, begin: (*server).beLate, manifest: `
apiVersion: batch/v1
kind: CronJob
metadata: {name: owner}
spec:
  schedule: "0 0 1 1 *"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
`},
}

// beLate makes a yearly CronJob believe that it has missed the first of January.
func (s *server) beLate(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	long := time.Now().AddDate(-1, -1, 0).UTC().Format(time.RFC3339)
	s.patchStatus(t, cronJobs, o, map[string]any{"lastScheduleTime": long})
}

func (s *server) patchStatus(t *testing.T, k kind, o *unstructured.Unstructured, status map[string]any) {
	t.Helper()
	_, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.MergePatchType,
		[]byte(asJSON(t, map[string]any{"status": status})), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// node registers a machine that is ready, as its kubelet would. It goes with the test.
func (s *server) node(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	n := s.create(t, nodes, "", name)
	t.Cleanup(func() {
		err := s.kube.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	s.patchStatus(t, nodes, n, map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}})
	n, err := s.dyn.Resource(nodes.gvr).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// level is one generation that has grown, and what a watch shows of its kind.
type level struct {
	k       kind
	objects []*unstructured.Unstructured
	seen    *recording
}

// grow makes a workload and returns it with all that controllers have made for it, from the top.
func (s *server) grow(t *testing.T, ns string, w workload) []level {
	t.Helper()
	levels := []level{{k: w.k, seen: s.record(t, w.k, ns)}}
	for _, g := range w.owns {
		levels = append(levels, level{k: g.k, seen: s.record(t, g.k, ns)})
	}
	top := s.from(t, w.k, ns, w.manifest)
	if w.begin != nil {
		w.begin(s, t, top)
	}
	levels[0].objects = []*unstructured.Unstructured{top}
	for i, g := range w.owns {
		levels[i+1].objects = s.awaitOwned(t, g.n, g.k, ns, levels[i].objects[0])
	}
	// What the collector has not seen yet cannot make an owner wait.
	for _, l := range levels {
		for _, o := range l.objects {
			s.awaitKnown(t, l.k, o)
		}
	}
	return levels
}

// ends returns the versions of the store at which the objects ended, in order.
func (l level) ends(t *testing.T) (versions []uint64) {
	t.Helper()
	for _, o := range l.objects {
		events := l.seen.awaitEnd(t, o)
		v, err := strconv.ParseUint(events[len(events)-1].Object.(metav1.Object).GetResourceVersion(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	slices.Sort(versions)
	return versions
}

// mustEndInTurn waits for the end of all, and checks that each level ended before the next began to.
func mustEndInTurn(t *testing.T, levels []level) {
	t.Helper()
	for i := 1; i < len(levels); i++ {
		before, after := levels[i-1].ends(t), levels[i].ends(t)
		if last := before[len(before)-1]; last >= after[0] {
			t.Errorf("the last of %s ended at %d, the first of %s at %d", levels[i-1].k.gvr.Resource, last, levels[i].k.gvr.Resource, after[0])
		}
	}
}

// TestWorkloadsAreDeleted by each policy, and without one. In the foreground the pods go first, in the
// background the workload does; orphaned, what it owns stays and is nobody's. A watch has seen it.
func TestWorkloadsAreDeleted(t *testing.T) {
	s := shared(t)
	n := s.node(t, "workloads")
	for _, w := range workloads {
		for _, policy := range []*metav1.DeletionPropagation{&foreground, &background, &orphan, nil} {
			name := "Default"
			if policy != nil {
				name = string(*policy)
			}
			t.Run(w.k.kind+"/"+name, func(t *testing.T) {
				ns := s.namespace(t, "workloads")
				levels := s.grow(t, ns, w)
				s.deleteWith(t, w.k, levels[0].objects[0], metav1.DeleteOptions{PropagationPolicy: policy})
				switch {
				case policy == &orphan || policy == nil && w.orphans:
					s.mustBeOrphaned(t, ns, levels)
				case policy == &foreground:
					slices.Reverse(levels)
					mustEndInTurn(t, levels)
				default:
					mustEndInTurn(t, levels)
				}
				// What controllers keep beside the pods goes too, or stays without an owner.
				s.awaitGone(t, w.k, levels[0].objects[0])
				s.awaitNoneOwned(t, revisions, ns)
			})
		}
	}
	// A Node that somebody registers is nobody's business here, though DaemonSets look at it.
	now, err := s.dyn.Resource(nodes.gvr).Get(t.Context(), n.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := asJSON(t, now.Object), asJSON(t, n.Object); got != want {
		t.Errorf("the node was\n%s and is\n%s", want, got)
	}
}

// mustBeOrphaned waits for the end of the top, and checks that what is below stays, freed of it, with all
// that it owns itself; then deletes it, which is as quick as ever.
func (s *server) mustBeOrphaned(t *testing.T, ns string, levels []level) {
	t.Helper()
	levels[0].ends(t)
	for _, l := range levels[1:] {
		s.barrier(t, configMaps, ns)
		for _, o := range l.objects {
			s.mustExist(t, l.k, o)
		}
	}
	s.awaitNoneOwned(t, levels[1].k, ns)
	for _, o := range levels[1].objects {
		s.deleteAs(t, levels[1].k, o, background)
	}
	for _, l := range levels[1:] {
		l.ends(t)
	}
}

// awaitNoneOwned waits until no object of a kind in a namespace has an owner.
func (s *server) awaitNoneOwned(t *testing.T, k kind, ns string) {
	t.Helper()
	await(t, k.gvr.Resource+" without owners", func(ctx context.Context) (bool, any) {
		list, err := s.meta.Resource(k.gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		owned := slices.DeleteFunc(list.Items, func(o metav1.PartialObjectMetadata) bool { return len(o.OwnerReferences) == 0 })
		return len(owned) == 0, owned
	})
}
