package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"golang.org/x/sync/errgroup"
)

// clients reach a server with nothing but the kubeconfig that it wrote.
type clients struct {
	config *rest.Config
	kube   kubernetes.Interface
	dyn    dynamic.Interface
	meta   metadata.Interface
}

func newClients(kubeconfig string) (c clients, err error) {
	if c.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return c, err
	}
	c.config.QPS = -1
	var h *http.Client
	if h, err = rest.HTTPClientFor(c.config); err != nil {
		return c, err
	}
	if c.kube, err = kubernetes.NewForConfigAndClient(c.config, h); err != nil {
		return c, err
	}
	if c.dyn, err = dynamic.NewForConfigAndClient(c.config, h); err != nil {
		return c, err
	}
	c.meta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), h)
	return c, err
}

// kind is a resource and what its objects call themselves.
type kind struct {
	gvr  schema.GroupVersionResource
	kind string
}

var (
	configMaps   = kind{corev1.SchemeGroupVersion.WithResource("configmaps"), "ConfigMap"}
	secrets      = kind{corev1.SchemeGroupVersion.WithResource("secrets"), "Secret"}
	clusterRoles = kind{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole"}
)

func (k kind) apiVersion() string { return k.gvr.GroupVersion().String() }

// owner refers to an object; controller and blockOwnerDeletion are left for the test to set.
func owner(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}

// nobody refers to an object that has never existed.
func nobody(k kind) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: k.apiVersion(), Kind: k.kind, Name: "never-was", UID: types.UID("00000000-0000-4000-8000-" + fmt.Sprintf("%012x", rand.Int63nRange(0, 1<<48)))}
}

// namespace makes a namespace and waits until what the controllers put into each one is there.
func (s *server) namespace(t *testing.T, base string) string {
	t.Helper()
	ns, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: base + "-", Labels: map[string]string{ofTests: ""},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the root CA and the default service account in "+ns.Name, func(ctx context.Context) (bool, any) {
		_, errCA := s.kube.CoreV1().ConfigMaps(ns.Name).Get(ctx, rootCA, metav1.GetOptions{})
		_, errSA := s.kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return errCA == nil && errSA == nil, fmt.Sprint(errCA, errSA)
	})
	return ns.Name
}

const (
	rootCA = "kube-root-ca.crt"
	// ofTests labels the namespaces that tests make.
	ofTests = "reap-test"
)

func object(k kind, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(k.apiVersion())
	o.SetKind(k.kind)
	o.SetName(name)
	o.SetOwnerReferences(owners)
	return o
}

// create makes an object; ns is "" for a cluster-scoped one.
func (s *server) create(t *testing.T, k kind, ns, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	o, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(t.Context(), object(k, name, owners...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating %s %s/%s: %v", k.kind, ns, name, err)
	}
	return o
}

// createMany makes n objects, name-0 and so on.
func (s *server) createMany(t *testing.T, n int, k kind, ns, name string, owners ...metav1.OwnerReference) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			o := object(k, fmt.Sprintf("%s-%d", name, i), owners...)
			_, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("creating %d of %s in %q: %v", n, k.kind, ns, err)
	}
}

// delete deletes this very object in the background.
func (s *server) delete(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	uid, background := o.GetUID(), metav1.DeletePropagationBackground
	err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if err != nil {
		t.Fatalf("deleting %s %s: %v", k.kind, o.GetName(), err)
	}
}

// uids returns the names and UIDs of what tests have made of a kind in a namespace.
func (s *server) uids(ctx context.Context, k kind, ns string) (map[string]types.UID, error) {
	list, err := s.meta.Resource(k.gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]types.UID{}
	for _, o := range list.Items {
		if k != configMaps || o.Name != rootCA {
			found[o.Name] = o.UID
		}
	}
	return found, nil
}

func (s *server) count(t *testing.T, k kind, ns string) int {
	t.Helper()
	found, err := s.uids(t.Context(), k, ns)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// awaitCount waits until a namespace holds n objects of a kind, kube-root-ca.crt not counted.
func (s *server) awaitCount(t *testing.T, n int, k kind, ns string) {
	t.Helper()
	await(t, fmt.Sprintf("%d of %s in %s", n, k.gvr.Resource, ns), func(ctx context.Context) (bool, any) {
		found, err := s.uids(ctx, k, ns)
		return err == nil && len(found) == n, fmt.Sprintf("%d (%v)", len(found), err)
	})
}

func (s *server) exists(ctx context.Context, k kind, o *unstructured.Unstructured) (bool, error) {
	m, err := s.meta.Resource(k.gvr).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && m.UID == o.GetUID(), err
}

func (s *server) awaitGone(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	await(t, fmt.Sprintf("%s %s to go", k.kind, o.GetName()), func(ctx context.Context) (bool, any) {
		there, err := s.exists(ctx, k, o)
		return !there && err == nil, fmt.Sprint("there: ", there, ", error: ", err)
	})
}

func (s *server) mustExist(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	if there, err := s.exists(t.Context(), k, o); !there {
		t.Errorf("%s %s is gone (%v)", k.kind, o.GetName(), err)
	}
}

// barrier returns once the collector has worked through the objects of a kind that were made before: it
// makes others that are to be collected, which the same monitor shows after them, and waits for their end.
// Several, because a worker may still be busy with an earlier object when the first of them is done.
func (s *server) barrier(t *testing.T, k kind, ns string) {
	t.Helper()
	for range 5 {
		s.awaitGone(t, k, s.create(t, k, ns, "barrier-"+rand.String(8), nobody(clusterRoles)))
	}
}
