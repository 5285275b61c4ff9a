//go:build releasetest && linux

package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clients reach a server.
type clients struct {
	config *rest.Config
	kube   kubernetes.Interface
	meta   metadata.Interface
}

func newClients(kubeconfig []byte) (*clients, error) {
	c, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	k := &clients{config: c}
	if k.kube, err = kubernetes.NewForConfig(c); err != nil {
		return nil, err
	}
	k.meta, err = metadata.NewForConfig(c)
	return k, err
}

const (
	namespace = "cascade"
	bystander = "default"
)

func (k *clients) create(ctx context.Context, namespace, name string, owners ...*corev1.ConfigMap) (*corev1.ConfigMap, error) {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})
	}
	return k.kube.CoreV1().ConfigMaps(namespace).Create(ctx, o, metav1.CreateOptions{})
}

// mustCreate is create that has to succeed.
func (k *clients) mustCreate(t *testing.T, namespace, name string, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	o, err := k.create(t.Context(), namespace, name, owners...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// mustCollect deletes an owner of n objects. They go with it, and nothing else does. It returns one that
// has to stay.
func (k *clients) mustCollect(t *testing.T, n int) *corev1.ConfigMap {
	t.Helper()
	_, err := k.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner, other := k.mustCreate(t, namespace, "owner"), k.mustCreate(t, namespace, "other")
	gone := []string{line(namespace, owner.Name)}
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for i := range n {
		name := fmt.Sprintf("dependent-%d", i)
		gone = append(gone, line(namespace, name))
		g.Go(func() error {
			_, err := k.create(ctx, namespace, name, owner)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("creating %d dependents: %v", n, err)
	}
	k.mustCreate(t, namespace, "owned-by-other", other)
	k.mustCreate(t, bystander, "owner")
	kept := k.mustCreate(t, namespace, "owned-by-both", owner, other)

	before := k.inventory(t)
	background := metav1.DeletePropagationBackground
	err = k.kube.CoreV1().ConfigMaps(namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
	var left int
	err = wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		after, err := k.list(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"))
		if err != nil {
			return false, err
		}
		left = 0
		for _, g := range gone {
			if _, there := after[g]; there {
				left++
			}
		}
		return left == 0, nil
	})
	if err != nil {
		t.Fatalf("waiting for the dependents to go: %v; %d are left", err, left)
	}
	// What two owned loses the reference to the one, which is the last that the collector does here.
	err = wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		kept, err = k.kube.CoreV1().ConfigMaps(namespace).Get(ctx, kept.Name, metav1.GetOptions{})
		return err == nil && len(kept.OwnerReferences) == 1, err
	})
	if err != nil {
		t.Fatalf("waiting for the reference of %s to go: %v", kept.Name, err)
	}
	after := k.inventory(t)
	maps.DeleteFunc(before, func(l string, uid types.UID) bool { return after[l] == uid })
	if missing := slices.Sorted(maps.Keys(before)); !slices.Equal(missing, slices.Sorted(slices.Values(gone))) {
		t.Errorf("%d objects are gone, and not the %d of the cascade: %q", len(missing), len(gone), missing)
	}
	return kept
}

// mustHave looks for what was kept.
func (k *clients) mustHave(t *testing.T, kept *corev1.ConfigMap) {
	t.Helper()
	got, err := k.kube.CoreV1().ConfigMaps(kept.Namespace).Get(t.Context(), kept.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != kept.UID || got.ResourceVersion != kept.ResourceVersion {
		t.Errorf("%s has the UID %s at version %s, and not %s at %s", kept.Name, got.UID, got.ResourceVersion, kept.UID, kept.ResourceVersion)
	}
}

// inventory lists every object of every kind, but for those that come and go by themselves.
func (k *clients) inventory(t *testing.T) map[string]types.UID {
	t.Helper()
	lists, err := discovery.ServerPreferredResources(k.kube.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || r.Name == "events" || r.Name == "leases" {
				continue
			}
			objects, err := k.list(t.Context(), gv.WithResource(r.Name))
			if err != nil {
				t.Fatalf("listing %s: %v", r.Name, err)
			}
			for name, uid := range objects {
				if r.Name != "configmaps" {
					name = gv.WithResource(r.Name).GroupResource().String() + " " + name
				}
				found[name] = uid
			}
		}
	}
	return found
}

// list returns the objects of a kind.
func (k *clients) list(ctx context.Context, gvr schema.GroupVersionResource) (map[string]types.UID, error) {
	objects, err := k.meta.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]types.UID{}
	for _, o := range objects.Items {
		found[line(o.Namespace, o.Name)] = o.UID
	}
	return found, nil
}

func line(namespace, name string) string { return namespace + "/" + name }
