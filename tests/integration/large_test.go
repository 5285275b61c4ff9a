package integration

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// large is about as much as etcd takes at once by default, and so what Kubernetes' users may count on.
const large = 1_500_000

// The objects have 1.5 MB.
func TestLargeObjectsAreKept(t *testing.T) { shared(t).mustKeepLargeObjects(t) }

// mustKeepLargeObjects has large objects own each other, deletes some by every policy, and checks that the others are
// unharmed.
func (s *server) mustKeepLargeObjects(t *testing.T) {
	t.Helper()
	bulks, crd := s.define(t, "Namespaced", "bulks", "Bulk")
	ns := s.namespace(t, "large")
	content := map[string]string{}
	create := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		t.Helper()
		raw := make([]byte, large*3/4)
		_, _ = rand.Read(raw) // never fails; no datastore can make it smaller
		content[name] = base64.StdEncoding.EncodeToString(raw)
		o := object(bulks, name, owners...)
		o.Object["content"] = content[name]
		o, err := s.dyn.Resource(bulks.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("creating an object of %d bytes: %v", large, err)
		}
		return o
	}
	front, back, freeing := create("front"), create("back"), create("freeing")
	for i := range 3 {
		create(fmt.Sprintf("front-%d", i), blocking(front))
		create(fmt.Sprintf("back-%d", i), owner(back), nobody(configMaps))
		create(fmt.Sprintf("freed-%d", i), owner(freeing))
	}
	s.deleteAs(t, bulks, front, foreground)
	s.deleteAs(t, bulks, back, background)
	s.deleteAs(t, bulks, freeing, orphan)
	s.awaitCount(t, 3, bulks, ns)
	list, err := s.dyn.Resource(bulks.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.Object["content"] != content[o.GetName()] {
			t.Errorf("%s has another content", o.GetName())
		}
		if refs := o.GetOwnerReferences(); len(refs) > 0 {
			t.Errorf("%s has owners: %v", o.GetName(), refs)
		}
	}
	s.undefine(t, crd)
}
