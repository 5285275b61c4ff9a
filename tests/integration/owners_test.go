package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// setOwners replaces an object's references: what owns each other cannot be made so.
func (s *server) setOwners(t *testing.T, k kind, o *unstructured.Unstructured, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	patch := []byte(asJSON(t, map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "ownerReferences": owners}}))
	now, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("giving %s owners: %v", o.GetName(), err)
	}
	return now
}

// mustHaveOwners checks an object's references, every field of each.
func (s *server) mustHaveOwners(t *testing.T, k kind, o *unstructured.Unstructured, owners ...metav1.OwnerReference) {
	t.Helper()
	now, err := s.meta.Resource(k.gvr).Namespace(o.GetNamespace()).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s: %v", o.GetName(), err)
	} else if got, want := asJSON(t, now.OwnerReferences), asJSON(t, owners); got != want {
		t.Errorf("%s: references\n got %s\nwant %s", o.GetName(), got, want)
	}
}
