package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestForegroundDeletionWaitsForALaggingController: one controller catches up, another is gone. The API server itself counts the
// custom resource's generation.
func TestForegroundDeletionWaitsForALaggingController(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "behind")
	gadgets, crd := s.define(t, "Namespaced", "gadgets", "Gadget", withStatus)
	defer s.undefine(t, crd)

	// The first change is observed, the second is not.
	change := func(name string, observed int64) *unstructured.Unstructured {
		t.Helper()
		o := s.create(t, gadgets, ns, name)
		client := s.dyn.Resource(gadgets.gvr).Namespace(ns)
		o.Object["spec"] = map[string]any{"size": int64(2)}
		o, err := client.Update(t.Context(), o, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.observe(t, gadgets, o, observed)
	}
	gone, follows := change("gone", 1), change("follows", 1)
	if follows.GetGeneration() != 2 {
		t.Fatalf("an update makes generation %d", follows.GetGeneration())
	}
	went := s.record(t, gadgets, ns)
	held := s.sum(t, "reap_gc_decisions_total", "controller-behind")
	for _, o := range []*unstructured.Unstructured{gone, follows} {
		s.deleteAs(t, gadgets, o, foreground)
	}
	s.observe(t, gadgets, follows, 2)
	s.awaitGone(t, gadgets, follows)
	s.awaitGone(t, gadgets, gone) // in the end
	mustEndBefore(t, ends(went.awaitEnd(t, gone)), follows, gone)
	if s.sum(t, "reap_gc_decisions_total", "controller-behind") == held {
		t.Error("nothing was held for its controller")
	}
}

// observe says in an object's status what its controller has seen.
func (s *server) observe(t *testing.T, k kind, o *unstructured.Unstructured, generation int64) *unstructured.Unstructured {
	t.Helper()
	client := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace())
	now, err := client.Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now.Object["status"] = map[string]any{"observedGeneration": generation}
	if now, err = client.UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return now
}
