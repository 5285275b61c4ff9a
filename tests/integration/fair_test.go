package integration

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/reap-dev/reap/tests/size"
)

// TestSmallCascadeIsNotHeldUpByALargeOne goes by the order of the ends: while ten objects of one namespace
// go, only as many of the thousands that were queued before them in another go as the collector has turns in
// a second: 250 on the smallest of machines, and 1000 on those that try 20,000 objects. pkg/gc counts the turns of the
// queue beside twenty thousand.
func TestSmallCascadeIsNotHeldUpByALargeOne(t *testing.T) {
	n, turns := size.Of(2000, 2000, 20_000), size.Of(250, 250, 1000)
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
	awaitWithin(t, 5*patience, "the large cascade's end", func(ctx context.Context) (bool, any) {
		left, err := s.uids(ctx, configMaps, large)
		return err == nil && len(left) == 0, fmt.Sprint(len(left), err)
	})
	last := s.create(t, configMaps, small, "last")
	s.delete(t, configMaps, last)
	between, after, left, began := 0, 0, 10, false
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
		case o.GetNamespace() == large && left == 0:
			after++
		}
	}
	size.Power(t, fmt.Sprintf("objects=%d between=%d after=%d", n, between, after))
	if left > 0 || between > turns {
		t.Errorf("%d are left of the small cascade; %d of the large one went before it was done", left, between)
	}
	if after < n/2 {
		t.Errorf("only %d of %d were left when the small cascade was done: nothing was in its way", after, n)
	}
}
