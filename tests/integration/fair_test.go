package integration

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// TestSmallCascadeIsNotHeldUpByALargeOne goes by the order of the ends: when ten objects of one namespace
// are done, most of the thousands that were queued before them in another are not.
func TestSmallCascadeIsNotHeldUpByALargeOne(t *testing.T) {
	const n = 2000
	s := shared(t)
	large, small := s.namespace(t, "large"), s.namespace(t, "small")
	many, few := s.create(t, configMaps, large, "owner"), s.create(t, configMaps, small, "owner")
	s.createMany(t, n, configMaps, large, "dependent", owner(many))
	s.createMany(t, 10, configMaps, small, "dependent", owner(few))
	s.barrier(t, configMaps, small) // all are in the graph
	went := s.record(t, configMaps, "")

	s.delete(t, configMaps, many)
	s.delete(t, configMaps, few)
	s.awaitCount(t, 0, configMaps, small)
	s.awaitCount(t, 0, configMaps, large)
	last := s.create(t, configMaps, small, "last")
	s.delete(t, configMaps, last)
	between, left, began := 0, 10, false
	for _, e := range went.awaitEnd(t, last) {
		o := e.Object.(interface{ GetNamespace() string })
		switch {
		case e.Type != watch.Deleted:
		case o.GetNamespace() == small && !began:
			began = true // its owner has gone
		case o.GetNamespace() == small && left > 0:
			left--
		case o.GetNamespace() == large && began && left > 0:
			between++
		}
	}
	t.Logf("%d of %d went between the end of the small cascade's owner and that of its last dependent", between, n)
	if left > 0 || between > n/2 {
		t.Errorf("%d are left of the small cascade; %d of the large one went before it was done", left, between)
	}
}
