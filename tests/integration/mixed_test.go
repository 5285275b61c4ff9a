package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

// TestSolidOwnerKeepsADependentThatAnotherOwnerWaitsFor: the object loses the reference to the one that waits, which
// then has nothing to wait for.
func TestSolidOwnerKeepsADependentThatAnotherOwnerWaitsFor(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "solid-waiting")
	waiting, solid, dangling := s.create(t, configMaps, ns, "waiting"), s.create(t, secrets, ns, "solid"), s.create(t, configMaps, ns, "dangling")
	kept := []*unstructured.Unstructured{
		s.create(t, configMaps, ns, "two", blocking(waiting), blocking(solid)),
		s.create(t, configMaps, ns, "two-reversed", owner(solid), blocking(waiting)),
		s.create(t, configMaps, ns, "not-blocking", owner(waiting), owner(solid)),
		s.create(t, secrets, ns, "three", blocking(dangling), blocking(solid), blocking(waiting)),
	}
	// The dependents of what stays stay, too.
	below := s.create(t, configMaps, ns, "below", blocking(kept[0]))
	held := s.createHeld(t, configMaps, ns, "held", blocking(waiting))
	s.deleteAs(t, configMaps, dangling, background)
	s.deleteAs(t, configMaps, waiting, foreground)
	for i, k := range []kind{configMaps, configMaps, configMaps, secrets} {
		// While the owner still waits, for another.
		s.awaitOwners(t, k, kept[i], 1)
		s.mustBeFreedOf(t, k, kept[i], waiting.GetUID(), dangling.GetUID())
	}
	s.foregroundBarrier(t, configMaps, ns)
	s.mustWait(t, configMaps, waiting)
	s.release(t, configMaps, held)
	s.awaitGone(t, configMaps, waiting)
	s.foregroundBarrier(t, configMaps, ns)
	for i, k := range []kind{configMaps, configMaps, configMaps, secrets} {
		s.mustBeFreedOf(t, k, kept[i], waiting.GetUID(), dangling.GetUID())
	}
	s.mustBeAsMade(t, configMaps, below)
	s.mustExist(t, secrets, solid)
}

// Both owners wait for the object.
func TestObjectGoesBeforeBothOwnersInForegroundDeletion(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "two-foreground")
	a, b := s.create(t, configMaps, ns, "a"), s.create(t, configMaps, ns, "b")
	held := s.createHeld(t, configMaps, ns, "held", blocking(a), blocking(b))
	inner := s.create(t, configMaps, ns, "inner", blocking(a), blocking(b))
	leaf := s.createHeld(t, configMaps, ns, "leaf", blocking(inner), blocking(b))
	r := s.record(t, configMaps, ns)
	s.deleteAs(t, configMaps, a, foreground)
	s.foregroundBarrier(t, configMaps, ns)
	s.deleteAs(t, configMaps, b, foreground)
	for _, o := range []*unstructured.Unstructured{held, inner, leaf} {
		s.awaitDeleting(t, configMaps, o)
	}
	s.foregroundBarrier(t, configMaps, ns)
	s.mustWait(t, configMaps, b)
	s.mustWait(t, configMaps, inner)
	s.release(t, configMaps, leaf)
	s.awaitGone(t, configMaps, inner)
	s.foregroundBarrier(t, configMaps, ns)
	s.mustWait(t, configMaps, b)
	s.release(t, configMaps, held)
	order := ends(r.awaitEnd(t, b))
	s.awaitGone(t, configMaps, a)
	mustEndBefore(t, order, leaf, inner)
	mustEndBefore(t, order, inner, b)
	mustEndBefore(t, order, held, b)
}

// TestOwnersDeletedAtOnceWithDifferentPolicies: what has an owner that is left, stays; what has none
// goes, unless the last to go left it behind; which is the last is chance, and both are seen.
func TestOwnersDeletedAtOnceWithDifferentPolicies(t *testing.T) {
	const n, tries = 50, 20
	s := shared(t)
	ns := s.namespace(t, "policies")
	solid := s.create(t, secrets, ns, "solid")
	owners, refs := s.threeOwners(t, ns)
	var uids []types.UID
	for _, o := range owners {
		uids = append(uids, o.GetUID())
	}
	var kept []*unstructured.Unstructured
	for i := range n {
		kept = append(kept, s.create(t, configMaps, ns, fmt.Sprintf("kept-%d", i), append([]metav1.OwnerReference{owner(solid)}, refs...)...))
	}
	for i := range n { // of no owner that leaves it behind
		s.create(t, configMaps, ns, fmt.Sprintf("goes-%d", i), refs[:2]...)
	}
	s.deleteAtOnce(t, owners)
	s.awaitCount(t, n, configMaps, ns)
	for _, o := range kept {
		s.awaitOwners(t, configMaps, o, 1)
		s.mustBeFreedOf(t, configMaps, o, uids...)
	}

	left, gone := 0, 0
	for try := 1; left == 0 || gone == 0; try++ {
		if try > tries {
			t.Fatalf("of objects that chance decides about %d were left and %d went", left, gone)
		}
		l, g := s.leaveToChance(t, n)
		left, gone = left+l, gone+g
	}
	size.Power(t, fmt.Sprintf("left=%d gone=%d", left, gone))
}

// leaveToChance has n objects of three owners that are deleted at once, each with another policy, and returns
// how many are left and how many went. What is left has no owner; what went had been let go by the one whose
// dependents stay before, and was not nobody's.
func (s *server) leaveToChance(t *testing.T, n int) (left, gone int) {
	t.Helper()
	ns := s.namespace(t, "policies-chance")
	owners, refs := s.threeOwners(t, ns)
	s.createMany(t, n, configMaps, ns, "either", refs...)
	r := s.record(t, configMaps, ns)
	s.deleteAtOnce(t, owners)
	s.foregroundBarrier(t, configMaps, ns)
	last := s.create(t, configMaps, ns, "last")
	s.delete(t, configMaps, last)
	for _, e := range r.awaitEnd(t, last) {
		o := e.Object.(metav1.Object)
		if e.Type != watch.Deleted || !strings.HasPrefix(o.GetName(), "either") {
			continue
		}
		gone++
		had := o.GetOwnerReferences()
		if len(had) == 0 || slices.ContainsFunc(had, func(r metav1.OwnerReference) bool { return r.UID == owners[2].GetUID() }) {
			t.Errorf("%s has been deleted, and had the owners %v", o.GetName(), had)
		}
	}
	left = n - gone
	s.awaitFreed(t, configMaps, ns, left)
	return left, gone
}

// policies are those of threeOwners' owners.
var policies = []metav1.DeletionPropagation{background, foreground, orphan}

// threeOwners makes owners, one for each policy, and references that block them.
func (s *server) threeOwners(t *testing.T, ns string) (owners []*unstructured.Unstructured, refs []metav1.OwnerReference) {
	t.Helper()
	for _, p := range policies {
		o := s.create(t, secrets, ns, "owner-"+strings.ToLower(string(p)))
		owners, refs = append(owners, o), append(refs, blocking(o))
	}
	return owners, refs
}

// deleteAtOnce deletes threeOwners' owners at the same time, and returns when they are gone.
func (s *server) deleteAtOnce(t *testing.T, owners []*unstructured.Unstructured) {
	t.Helper()
	var g errgroup.Group
	for i, o := range owners {
		g.Go(func() error {
			return s.dyn.Resource(secrets.gvr).Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policies[i]})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		s.awaitGone(t, secrets, o)
	}
}

// An owner deleted with policy Orphan after the other one keeps the object. If it is deleted first, the other
// owner's deletion decides.
func TestOrphaningByTheLastOwnerKeepsTheObject(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "orphan-last")
	for _, other := range []metav1.DeletionPropagation{background, foreground} {
		for _, last := range []bool{true, false} {
			t.Run(fmt.Sprint(other, last), func(t *testing.T) {
				a, b := s.create(t, secrets, ns, "a"), s.create(t, secrets, ns, "b")
				d := s.create(t, configMaps, ns, "dependent", blocking(a), blocking(b))
				if !last {
					s.deleteAs(t, secrets, b, orphan)
					s.awaitGone(t, secrets, b)
				}
				s.deleteAs(t, secrets, a, other)
				s.awaitGone(t, secrets, a)
				if !last {
					s.awaitGone(t, configMaps, d)
					return
				}
				s.awaitOwners(t, configMaps, d, 1)
				s.deleteAs(t, secrets, b, orphan)
				s.awaitGone(t, secrets, b)
				s.barrier(t, configMaps, ns)
				s.mustBeFreedOf(t, configMaps, d, a.GetUID(), b.GetUID())
				s.deleteAs(t, configMaps, d, background)
			})
		}
	}
}

// Waiting objects are deleted again with another policy, which then applies. Meanwhile an unknown reference
// protects one dependent from deletion, and a finalizer holds another one that has been deleted.
func TestLastPropagationPolicyCounts(t *testing.T) {
	s := shared(t)
	unknown := nobody(configMaps)
	unknown.APIVersion = "example.invalid/v1"
	for _, then := range []metav1.DeletionPropagation{background, orphan} {
		t.Run(string(then), func(t *testing.T) {
			ns := s.namespace(t, "other-policy")
			o := s.create(t, configMaps, ns, "owner")
			kept := s.create(t, configMaps, ns, "kept", blocking(o), unknown)
			held := s.createHeld(t, configMaps, ns, "held", blocking(o))
			below := s.create(t, configMaps, ns, "below", blocking(kept))
			s.deleteAs(t, configMaps, o, foreground)
			s.awaitDeleting(t, configMaps, held)
			s.foregroundBarrier(t, configMaps, ns)
			s.mustWait(t, configMaps, o)

			s.deleteAs(t, configMaps, o, then)
			s.awaitGone(t, configMaps, o)
			s.foregroundBarrier(t, configMaps, ns)
			if then == orphan {
				s.mustBeFreedOf(t, configMaps, kept, o.GetUID())
			} else {
				s.mustBeAsMade(t, configMaps, kept)
			}
			s.mustBeAsMade(t, configMaps, below)
			s.mustExist(t, configMaps, held)
			s.release(t, configMaps, held)
			s.awaitGone(t, configMaps, held)
		})
	}
}

// TestNamespaceEndsWithForegroundDeletionsInIt has one owner in it that waits for a finalizer, one with
// hundreds to wait for, and one without a namespace that waits for what is in this and in another.
func TestNamespaceEndsWithForegroundDeletionsInIt(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "ends-in-foreground"), s.namespace(t, "stays")
	moons, crd := s.define(t, "Cluster", "moons", "Moon")
	above := s.create(t, moons, "", "above")
	s.createMany(t, 50, configMaps, ns, "of-above", blocking(above))
	elsewhere := s.createHeld(t, configMaps, other, "of-above", blocking(above))
	bystander := s.create(t, configMaps, other, "bystander")
	s.createMany(t, 20, configMaps, other, "of-bystander", blocking(bystander))

	o := s.create(t, configMaps, ns, "owner")
	inner := s.create(t, configMaps, ns, "inner", blocking(o))
	held := s.createHeld(t, configMaps, ns, "held", blocking(inner))
	big := s.create(t, secrets, ns, "big")
	s.createMany(t, 500, configMaps, ns, "dependent", blocking(big))
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitDeleting(t, configMaps, held)
	s.deleteAs(t, secrets, big, foreground)
	s.deleteAs(t, moons, above, foreground)
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "all but what is held to go", func(ctx context.Context) (bool, any) {
		found, err := s.uids(ctx, configMaps, ns)
		_, there := found[held.GetName()]
		return err == nil && there && found["dependent-0"] == "" && found["of-above-0"] == "", fmt.Sprint(len(found), err)
	})
	s.release(t, configMaps, held)
	s.awaitNamespaceGone(t, ns)
	s.mustWait(t, moons, above)
	s.release(t, configMaps, elsewhere)
	s.awaitGone(t, moons, above)
	s.foregroundBarrier(t, configMaps, other)
	s.mustExist(t, configMaps, bystander)
	s.awaitCount(t, 1+20, configMaps, other)
	s.undefine(t, crd)
}
