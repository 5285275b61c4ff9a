package cli

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestFinalizerOfANamespacesSpecIsTakenOff: through the subresource, off a deleted namespace with that UID alone, and again if the
// namespace changes meanwhile.
func TestFinalizerOfANamespacesSpecIsTakenOff(t *testing.T) {
	when := metav1.Now()
	for name, c := range map[string]struct {
		uid      types.UID
		deleted  bool
		conflict int
		left     []string
		err      string
		released bool
	}{
		"deleted":        {uid: "u", deleted: true, left: []string{"example.com/meta", "kubernetes"}, released: true},
		"changes":        {uid: "u", deleted: true, conflict: 2, left: []string{"example.com/meta", "kubernetes"}, released: true},
		"always changes": {uid: "u", deleted: true, conflict: releaseRounds, err: "try again"},
		"another":        {uid: "v", deleted: true},
		"alive":          {uid: "u", err: "has not been deleted"},
	} {
		ns := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u", Finalizers: []string{"example.com/meta"}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "example.com/hold"}},
		}
		if c.deleted {
			ns.DeletionTimestamp = &when
		}
		client := fake.NewClientset(ns)
		released := false
		client.PrependReactor("*", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() != "finalize" {
				return false, nil, nil
			}
			if c.conflict > 0 {
				c.conflict--
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "shop", nil)
			}
			sent := a.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
			released = slices.Equal(sent.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"})
			return true, sent, nil
		})
		left, err := finalize(t.Context(), client.CoreV1().Namespaces(), "shop", c.uid, "example.com/hold")
		if released != c.released || !slices.Equal(left, c.left) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: released %v, left %q, %v", name, released, left, err)
		}
	}
}

// TestSpecFinalizerIsFoundByItsName: that of a namespace's spec has to be named like others.
func TestSpecFinalizerIsFoundByItsName(t *testing.T) {
	when := metav1.Now()
	o := &object{metadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &when}}}
	o.resource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	if f, err := stuckFinalizer(o, []string{"kubernetes", "example.com/hold"}, "example.com/hold"); f != "example.com/hold" || err != nil {
		t.Errorf("%q, %v", f, err)
	}
	if _, err := stuckFinalizer(o, []string{"kubernetes", "example.com/hold"}, ""); err == nil {
		t.Error("one is taken off that no option named")
	}
}
