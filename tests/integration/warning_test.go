package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wrongNamespace is the reason of the events that these tests look for.
const wrongNamespace = "OwnerRefInvalidNamespace"

// TestOwnersInTheWrongNamespaceAreReported once for each object, however often it is looked at.
func TestOwnersInTheWrongNamespaceAreReported(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "warned"), s.namespace(t, "warned-elsewhere")
	o := s.create(t, configMaps, ns, "owner")

	crossing := s.create(t, configMaps, other, "dependent", owner(o))
	s.awaitGone(t, configMaps, crossing)
	roles := []*unstructured.Unstructured{
		s.create(t, clusterRoles, "", "warned-living-"+ns, owner(o)),
		s.create(t, clusterRoles, "", "warned-nobody-"+ns, nobody(configMaps)),
	}
	for range 3 {
		for _, r := range roles {
			s.touch(t, clusterRoles, r)
		}
		s.barrier(t, clusterRoles, "")
	}
	// Events are written in turn: with this one, those of all before it are there.
	last := s.create(t, clusterRoles, "", "warned-last-"+ns, owner(o))
	s.awaitEvents(t, last, wrongNamespace)
	for _, w := range []*unstructured.Unstructured{crossing, roles[0], roles[1]} {
		if got := s.awaitEvents(t, w, wrongNamespace); len(got) != 1 || got[0].Count != 1 || got[0].Type != corev1.EventTypeWarning || got[0].Namespace != eventsOf(w) {
			t.Errorf("%s: got %+v", w.GetName(), got)
		}
	}
	for _, r := range append(roles, last) {
		s.mustExist(t, clusterRoles, r)
	}
	s.mustExist(t, configMaps, o)
}
