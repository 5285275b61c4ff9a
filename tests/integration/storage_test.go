package integration

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volumes, claims and Services are deleted soon, with each propagation policy and without one: what admission puts on them, a
// controller takes off.
func TestNoObjectWaitsForAnAbsentController(t *testing.T) {
	s := shared(t)
	for _, tc := range []struct {
		k        kind
		manifest string
	}{
		{claims, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: test}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`},
		{volumes, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: test}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /none}}
`},
		{services, `
apiVersion: v1
kind: Service
metadata: {name: test}
spec: {type: LoadBalancer, selector: {app: test}, ports: [{port: 80}]}
`},
	} {
		t.Run(tc.k.kind, func(t *testing.T) {
			ns := ""
			if tc.k != volumes {
				ns = s.namespace(t, "nothing-waits")
			}
			for _, policy := range []*metav1.DeletionPropagation{&foreground, &background, &orphan, nil} {
				o := s.from(t, tc.k, ns, tc.manifest)
				s.deleteWith(t, tc.k, o, metav1.DeleteOptions{PropagationPolicy: policy})
				s.awaitGone(t, tc.k, o)
			}
		})
	}
}

const stateful = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: owner}
spec:
  replicas: 2
  serviceName: none
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenDeleted: %s}
  selector: {matchLabels: {app: test}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:` + podTemplate

// Claims are kept or deleted with the StatefulSet, as its retention policy says.
func TestClaimsFollowTheStatefulSetsRetentionPolicy(t *testing.T) {
	s := shared(t)
	for _, policy := range []metav1.DeletionPropagation{foreground, background} {
		for says, left := range map[string]int{"Retain": 2, "Delete": 0} {
			t.Run(says+"/"+string(policy), func(t *testing.T) {
				ns := s.namespace(t, "claims")
				o := s.from(t, statefulSets, ns, fmt.Sprintf(stateful, says))
				s.awaitOwned(t, 2, pods, ns, o)
				s.awaitCount(t, 2, claims, ns)
				if left == 0 {
					// The controller makes the set an owner after it has made the claim, and never if the set goes first.
					s.awaitOwned(t, 2, claims, ns, o)
				}
				s.deleteAs(t, statefulSets, o, policy)
				s.awaitGone(t, statefulSets, o)
				s.awaitCount(t, 0, pods, ns)
				s.awaitCount(t, left, claims, ns)
				s.barrier(t, configMaps, ns)
				s.awaitCount(t, left, claims, ns)
			})
		}
	}
}
