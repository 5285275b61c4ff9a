package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// setServed serves the only version of a CRD, or none.
func (s *server) setServed(t *testing.T, k kind, crd *unstructured.Unstructured, served bool) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/versions/0/served", "value": %v}]`, served)
	if _, err := s.dyn.Resource(definitions.gvr).Patch(t.Context(), crd.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "another answer of "+crd.GetName(), func(ctx context.Context) (bool, any) {
		_, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		return (err == nil) == served, err
	})
}

// TestCRDThatServesNoVersionHoldsDeletions: nobody can see the objects of such a CRD. They hold their owners all
// the same, also after a restart. Those that name an orphaned owner are not collected once they can be seen again.
func TestCRDThatServesNoVersionHoldsDeletions(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "unserved")
	levers, crd := s.define(t, "Namespaced", "levers", "Lever")
	orphaned, waiting := s.create(t, configMaps, ns, "orphaned"), s.create(t, configMaps, ns, "waiting")
	freed, blocker := s.create(t, levers, ns, "freed", owner(orphaned)), s.create(t, levers, ns, "blocker", blocking(waiting))
	s.setServed(t, levers, crd, false)
	// Longer than the last events of the resource are waited for.
	await(t, "a hold in the status", func(ctx context.Context) (bool, any) {
		raw, err := s.getURI(ctx, "/reap/v1/status")
		return strings.Contains(raw, "not served though objects of it may exist"), fmt.Sprint(raw, err)
	})
	s.deleteAs(t, configMaps, waiting, metav1.DeletePropagationForeground)
	s.deleteAs(t, configMaps, orphaned, metav1.DeletePropagationOrphan)
	for _, e := range s.awaitEvents(t, orphaned, "OrphaningWaits") {
		if !strings.Contains(e.Message, crd.GetName()) || !strings.Contains(e.Message, "--gc-orphan-timeout") {
			t.Errorf("users are told: %s", e.Message)
		}
	}
	s.mustExist(t, configMaps, waiting)
	s.stop(t)
	s.restart(t)
	later := s.create(t, configMaps, ns, "later")
	s.deleteAs(t, configMaps, later, metav1.DeletePropagationOrphan)
	for _, e := range s.awaitEvents(t, later, "OrphaningWaits") {
		if !strings.Contains(e.Message, crd.GetName()+": its CRD serves no version") {
			t.Errorf("users are told: %s", e.Message)
		}
	}
	s.mustExist(t, configMaps, orphaned)
	s.setServed(t, levers, crd, true)
	for _, o := range []*unstructured.Unstructured{orphaned, later, waiting} {
		s.awaitGone(t, configMaps, o)
	}
	s.mustBeFreedOf(t, levers, freed, orphaned.GetUID())
	s.awaitGone(t, levers, blocker)
}
