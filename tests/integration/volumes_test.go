package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	resourceClaims = kind{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}, "ResourceClaim"}
	claimTemplates = kind{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaimtemplates"}, "ResourceClaimTemplate"}
	volumeClasses  = kind{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "volumeattributesclasses"}, "VolumeAttributesClass"}
)

const (
	volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {generateName: test-, labels: {for: %[1]s}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  storageClassName: ""
  hostPath: {path: /none}
  claimRef: {namespace: %[1]s, name: test} # claims that other tests leave would take it
`
	claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: test}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  resources: {requests: {storage: 1Gi}}
  selector: {matchLabels: {for: %s}}
`
	mounting = `
apiVersion: v1
kind: Pod
metadata: {name: test}
spec:
  containers: [{name: nginx, image: nginx}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: test}}]
`
)

// awaitPhase waits for the phase of a claim or volume.
func (s *server) awaitPhase(t *testing.T, k kind, o *unstructured.Unstructured, want string) {
	t.Helper()
	await(t, o.GetName()+" to be "+want, func(ctx context.Context) (bool, any) {
		now, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		got, _, err := unstructured.NestedString(now.Object, "status", "phase")
		return got == want, fmt.Sprint(got, err)
	})
}

// TestClaimIsBoundAndProtected while a pod uses it, and its volume while it is bound.
func TestClaimIsBoundAndProtected(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "volumes")
	v := s.from(t, volumes, "", fmt.Sprintf(volume, ns))
	c := s.from(t, claims, ns, fmt.Sprintf(claim, ns))
	s.awaitPhase(t, claims, c, "Bound")
	s.awaitPhase(t, volumes, v, "Bound")

	n := s.node(t, "volumes")
	p := s.from(t, pods, ns, mounting)
	s.bind(t, p, n.GetName())
	s.deleteAs(t, volumes, v, background)
	s.deleteAs(t, claims, c, background)
	s.awaitDeleting(t, volumes, v)
	s.awaitDeleting(t, claims, c)
	s.deleteNamespace(t, s.namespace(t, "elsewhere")) // a controller goes through all resources meanwhile
	s.mustExist(t, claims, c)
	s.mustExist(t, volumes, v)

	now := int64(0)
	s.deleteWith(t, pods, p, metav1.DeleteOptions{GracePeriodSeconds: &now})
	s.awaitGone(t, claims, c)
	s.awaitGone(t, volumes, v)
}

// TestVolumeOfADeletedClaimIsReleased and stays, as its reclaim policy says.
func TestVolumeOfADeletedClaimIsReleased(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "released")
	v := s.from(t, volumes, "", fmt.Sprintf(volume, ns))
	c := s.from(t, claims, ns, fmt.Sprintf(claim, ns))
	s.awaitPhase(t, claims, c, "Bound")
	s.deleteAs(t, claims, c, background)
	s.awaitGone(t, claims, c)
	s.awaitPhase(t, volumes, v, "Released")
	s.deleteAs(t, volumes, v, background)
	s.awaitGone(t, volumes, v)
}

// TestClassOfVolumesIsDeleted although admission gives it a finalizer.
func TestClassOfVolumesIsDeleted(t *testing.T) {
	s := shared(t)
	o := s.from(t, volumeClasses, "", `
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: test}
driverName: none.example.com
parameters: {iops: "1"}
`)
	if len(o.GetFinalizers()) != 1 {
		t.Errorf("made with the finalizers %q", o.GetFinalizers())
	}
	s.deleteAs(t, volumeClasses, o, background)
	s.awaitGone(t, volumeClasses, o)
}

// TestClaimsOfAPodGoWithIt: of its ephemeral volumes and from templates of resource claims.
func TestClaimsOfAPodGoWithIt(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "of-pods")
	s.from(t, claimTemplates, ns, `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: test}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: none}}]}}}
`)
	p := s.from(t, pods, ns, `
apiVersion: v1
kind: Pod
metadata: {name: test}
spec:
  containers: [{name: nginx, image: nginx}]
  resourceClaims: [{name: device, resourceClaimTemplateName: test}]
  volumes:
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
`)
	s.awaitOwned(t, 1, claims, ns, p)
	s.awaitCount(t, 1, resourceClaims, ns)
	await(t, "the pod to name its claim", func(ctx context.Context) (bool, any) {
		now, err := s.kube.CoreV1().Pods(ns).Get(ctx, "test", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return len(now.Status.ResourceClaimStatuses) == 1, now.Status
	})
	s.deleteAs(t, pods, p, background)
	s.awaitCount(t, 0, claims, ns)
	s.awaitCount(t, 0, resourceClaims, ns)
}
