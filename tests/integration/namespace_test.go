package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

var apiServices = kind{schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "APIService"}

// deleteNamespace deletes a namespace and waits for its end, as kubectl does.
func (s *server) deleteNamespace(t *testing.T, ns string) {
	t.Helper()
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitNamespaceGone(t, ns)
}

func (s *server) awaitNamespaceGone(t *testing.T, ns string) {
	t.Helper()
	await(t, "namespace "+ns+" to go", func(ctx context.Context) (bool, any) {
		n, err := s.kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, []any{err, n.Status}
	})
}

func TestNamespaceWithObjectsInItEnds(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "ends"), s.namespace(t, "ends-not")
	sprockets, crd := s.define(t, "Namespaced", "sprockets", "Sprocket")
	for _, n := range []string{ns, other} {
		o := s.create(t, sprockets, n, "owner")
		s.createMany(t, 100, configMaps, n, "dependent", owner(o))
		s.createMany(t, 100, sprockets, n, "dependent", owner(o))
		s.createMany(t, 20, secrets, n, "unowned")
	}
	s.deleteNamespace(t, ns)
	if got := s.count(t, configMaps, ns) + s.count(t, sprockets, ns) + s.count(t, secrets, ns); got != 0 {
		t.Errorf("%d objects outlive their namespace", got)
	}
	if got := s.count(t, configMaps, other) + s.count(t, sprockets, other) + s.count(t, secrets, other); got != 100+101+20 {
		t.Errorf("%d objects are left in the other namespace", got)
	}
	s.undefine(t, crd)
	s.awaitCount(t, 0, configMaps, other)
}

// TestNamespaceGetsWhatPodsNeed relies on namespace to wait for both objects.
func TestNamespaceGetsWhatPodsNeed(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "fresh")
	cm, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), rootCA, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(cm.Data["ca.crt"])) {
		t.Fatalf("no certificate in %v", cm.Data)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	if got := status(t, c, s.URL+"/version"); got != http.StatusOK {
		t.Errorf("trusting only that certificate, /version answers %d", got)
	}
}

// TestNamespaceWithWorkloadsInItEnds has one of each.
func TestNamespaceWithWorkloadsInItEnds(t *testing.T) {
	s := shared(t)
	s.node(t, "namespace-ends")
	ns := s.namespace(t, "ends-workloads")
	for i, w := range workloads {
		// Of one name each, and of labels of its own.
		w.manifest = strings.ReplaceAll(strings.ReplaceAll(w.manifest, "name: owner", fmt.Sprintf("name: owner-%d", i)), "app: test", fmt.Sprintf("app: test-%d", i))
		o := s.from(t, w.k, ns, w.manifest)
		if w.begin != nil {
			w.begin(s, t, o)
		}
	}
	s.awaitCount(t, 3+3+3+3+1+2+1, pods, ns)
	s.deleteNamespace(t, ns)
}

// TestNamespaceSaysWhatHoldsIt while a foreground deletion of custom resources in it waits for somebody.
func TestNamespaceSaysWhatHoldsIt(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "ends-held")
	spindles, crd := s.define(t, "Namespaced", "spindles", "Spindle")
	o := s.create(t, spindles, ns, "owner")
	s.createMany(t, 50, configMaps, ns, "dependent", blocking(o))
	held := s.createHeld(t, spindles, ns, "held", blocking(o))
	s.deleteAs(t, spindles, o, foreground)
	s.awaitDeleting(t, spindles, held)
	s.mustWait(t, spindles, o)
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitReason(t, ns, corev1.NamespaceFinalizersRemaining, hold)
	s.mustExist(t, spindles, held)
	s.release(t, spindles, held)
	s.awaitNamespaceGone(t, ns)
	s.undefine(t, crd)
}

// TestNamespaceSaysThatAPodHoldsIt if its only pod has a finalizer, and goes when the finalizer is taken.
func TestNamespaceSaysThatAPodHoldsIt(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "ends-held-by-pod")
	o := object(pods, "held")
	o.SetFinalizers([]string{hold})
	o.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}}
	pod, err := s.dyn.Resource(pods.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitReason(t, ns, corev1.NamespaceContentRemaining, "pods. has 1 resource instances")
	s.awaitReason(t, ns, corev1.NamespaceFinalizersRemaining, hold)
	s.release(t, pods, pod)
	s.awaitNamespaceGone(t, ns)
}

// awaitReason waits until a namespace that is being deleted says that it cannot be, and why.
func (s *server) awaitReason(t *testing.T, ns string, condition corev1.NamespaceConditionType, says string) {
	t.Helper()
	await(t, fmt.Sprintf("%s to say %s and %q", ns, condition, says), func(ctx context.Context) (bool, any) {
		n, err := s.kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == condition && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, says) {
				return n.Status.Phase == corev1.NamespaceTerminating, n.Status
			}
		}
		return false, n.Status
	})
}

// TestNamespaceWaitsForAnAggregatedAPIThatIsDown since nobody knows what of it is in the namespace; its
// status says so.
func TestNamespaceWaitsForAnAggregatedAPIThatIsDown(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "ends-aggregated")
	s.create(t, configMaps, ns, "test")
	api := s.from(t, apiServices, "", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.test.reap.dev}
spec:
  group: down.test.reap.dev
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {namespace: default, name: none}
`)
	t.Cleanup(func() { // a failed test leaves others a server that can tell what it has
		_ = s.dyn.Resource(apiServices.gvr).Delete(context.WithoutCancel(t.Context()), api.GetName(), metav1.DeleteOptions{}) // usually gone
	})
	await(t, "discovery to miss a group", func(context.Context) (bool, any) {
		_, err := discovery.ServerPreferredResources(s.kube.Discovery())
		return discovery.IsGroupDiscoveryFailedError(err), err
	})
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitReason(t, ns, corev1.NamespaceDeletionDiscoveryFailure, "down.test.reap.dev/v1")
	// What it does know of, it deletes.
	s.awaitCount(t, 0, configMaps, ns)
	s.delete(t, apiServices, api)
	s.awaitNamespaceGone(t, ns)
	await(t, "discovery to be whole", func(context.Context) (bool, any) {
		_, err := discovery.ServerPreferredResources(s.kube.Discovery())
		return err == nil, err
	})
}
