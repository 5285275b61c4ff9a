package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// documented are the examples of the Kubernetes documentation, word for word: of garbage collection, and
// of cascading deletion.
var documented = []workload{
	{k: replicaSets, owns: []generation{{pods, 3}}, manifest: `apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: my-repset
spec:
  replicas: 3
  selector:
    matchLabels:
      pod-is-for: garbage-collection-example
  template:
    metadata:
      labels:
        pod-is-for: garbage-collection-example
    spec:
      containers:
      - name: nginx
        image: nginx
`},
	{k: deployments, owns: []generation{{replicaSets, 1}, {pods, 3}}, manifest: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx-deployment
  labels:
    app: nginx
spec:
  replicas: 3
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - name: nginx
        image: nginx:1.14.2
        ports:
        - containerPort: 80
`},
}

// TestDocumentedExamples does with kubectl what the documentation does.
func TestDocumentedExamples(t *testing.T) {
	s := shared(t)
	for _, w := range documented {
		for _, policy := range []metav1.DeletionPropagation{foreground, background, orphan} {
			t.Run(w.k.kind+"/"+string(policy), func(t *testing.T) {
				ns := s.namespace(t, "documented")
				kubectl := s.kubectlIn(t, ns)
				levels := s.grow(t, ns, w)
				top := levels[0].objects[0]
				kubectl("", "delete", w.k.gvr.Resource, top.GetName(), "--cascade="+strings.ToLower(string(policy)))
				s.mustEndAs(t, policy, ns, levels)
				if policy != orphan {
					// A controller that has not heard yet may have made another pod, which goes as well.
					s.awaitCount(t, 0, pods, ns)
				}
			})
		}
	}
}

// mustEndAs waits for the end of a workload that was deleted, and checks that it is the policy's.
func (s *server) mustEndAs(t *testing.T, policy metav1.DeletionPropagation, ns string, levels []level) {
	t.Helper()
	if policy == orphan {
		s.mustBeOrphaned(t, ns, levels)
		return
	}
	if policy == foreground {
		slices.Reverse(levels)
	}
	mustEndInTurn(t, levels)
}

// TestKubectlFollowsARollout of pods that somebody says are ready, as their kubelets would.
func TestKubectlFollowsARollout(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "rollout")
	kubectl := s.kubectlIn(t, ns)
	levels := s.grow(t, ns, documented[1])
	for _, p := range levels[2].objects {
		s.patchStatus(t, pods, p, map[string]any{
			"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		})
	}
	if got := kubectl("", "rollout", "status", "deployment/nginx-deployment", "--timeout="+patience.String()); !strings.Contains(got, "successfully rolled out") {
		t.Errorf("rollout status says %s", got)
	}
	for _, reason := range []string{"ScalingReplicaSet", "SuccessfulCreate"} {
		await(t, "an event "+reason, func(context.Context) (bool, any) {
			got := kubectl("", "events")
			return strings.Contains(got, reason), got
		})
	}
	// The next rollout begins with one pod more; its ReplicaSet is the second.
	kubectl("", "set", "image", "deployment/nginx-deployment", "nginx=nginx:1.16.1")
	s.awaitCount(t, 2, replicaSets, ns)
	s.awaitCount(t, 4, pods, ns)
	kubectl("", "delete", "deployment", "nginx-deployment", "--cascade=foreground")
	s.awaitCount(t, 0, replicaSets, ns)
	s.awaitCount(t, 0, pods, ns)
}
