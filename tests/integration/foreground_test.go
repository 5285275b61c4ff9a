package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// TestForegroundDeletionGoesFromTheLeavesUp has three levels, and in one branch somebody else's
// finalizer on a leaf: its owner and that one's owner wait for it, and for nothing else.
func TestForegroundDeletionGoesFromTheLeavesUp(t *testing.T) {
	s := shared(t)
	cogs, crd := s.define(t, "Namespaced", "cogs", "Cog")
	for _, k := range []kind{configMaps, cogs} {
		t.Run(k.kind, func(t *testing.T) {
			ns := s.namespace(t, "foreground")
			type pair struct{ first, second *unstructured.Unstructured }
			var order []pair
			var held, waiting *unstructured.Unstructured
			root := s.create(t, k, ns, "root")
			for i := range 3 {
				inner := s.create(t, k, ns, fmt.Sprintf("inner-%d", i), blocking(root))
				order = append(order, pair{inner, root})
				for j := range 3 {
					name, make := fmt.Sprintf("leaf-%d-%d", i, j), s.create
					if i == 1 && j == 1 {
						make = s.createHeld
					}
					leaf := make(t, k, ns, name, blocking(inner))
					order = append(order, pair{leaf, inner})
					if i == 1 && j == 1 {
						held, waiting = leaf, inner
					}
				}
			}
			kept := s.create(t, k, ns, "kept")
			r := s.record(t, k, ns)
			s.deleteAs(t, k, root, foreground)
			s.awaitCount(t, 4, k, ns) // root, waiting, held, kept
			s.foregroundBarrier(t, k, ns)
			s.mustWait(t, k, root)
			s.mustWait(t, k, waiting)
			s.awaitDeleting(t, k, held)
			s.mustExist(t, k, kept)

			s.release(t, k, held)
			events := r.awaitEnd(t, root)
			for _, p := range order {
				mustEndBefore(t, ends(events), p.first, p.second)
			}
			// From its deletion to its end the root was seen waiting.
			deleted := false
			for _, e := range events[:len(events)-1] {
				if o := e.Object.(metav1.Object); o.GetUID() == root.GetUID() && e.Type == watch.Modified && o.GetDeletionTimestamp() != nil {
					deleted = true
				}
			}
			if !deleted {
				t.Error("the root was never seen waiting for its dependents")
			}
			s.foregroundBarrier(t, k, ns)
			s.mustBeAsMade(t, k, kept)
		})
	}
	s.undefine(t, crd)
}

// TestForegroundDeletionOfManyRemovesNothingElse has dependents of two kinds.
func TestForegroundDeletionOfManyRemovesNothingElse(t *testing.T) {
	s := shared(t)
	const n = 1000
	here, there := s.namespace(t, "foreground-many"), s.namespace(t, "foreground-bystanders")
	o, other := s.create(t, configMaps, here, "owner"), s.create(t, configMaps, here, "other")
	s.createMany(t, n, configMaps, here, "dependent", blocking(o))
	s.createMany(t, 50, secrets, here, "dependent", blocking(o))
	s.create(t, configMaps, there, "owner")
	s.createMany(t, 50, configMaps, there, "dependent")
	s.createMany(t, 50, configMaps, here, "unowned")
	s.createMany(t, 50, configMaps, here, "of-another", blocking(other))
	before := s.inventory(t)
	r := s.record(t, configMaps, here)
	s.deleteAs(t, configMaps, o, foreground)
	if got := len(ends(r.awaitEnd(t, o))); got != n+1 {
		t.Errorf("the owner ended after %d of its %d dependents", got-1, n)
	}
	s.foregroundBarrier(t, configMaps, here)
	gone := append(many(n, configMaps, here, "dependent"), many(50, secrets, here, "dependent")...)
	before.mustBe(t, s.inventory(t), append(gone, line(configMaps.gvr.GroupResource(), here, "owner")))
}

// A finalizer holds the dependents, so that they outlive the owner, which does not wait for them.
func TestDependentsThatDoNotBlockAreNotWaitedFor(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "not-blocking")
	o := s.create(t, configMaps, ns, "owner")
	no, says := false, owner(o)
	says.BlockOwnerDeletion = &no
	held := []*unstructured.Unstructured{
		s.createHeld(t, configMaps, ns, "says-nothing", owner(o)),
		s.createHeld(t, configMaps, ns, "says-no", says),
	}
	s.createMany(t, 20, configMaps, ns, "leaf", owner(o))
	s.createMany(t, 20, secrets, ns, "leaf", blocking(o))
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitGone(t, configMaps, o)
	s.awaitCount(t, 0, secrets, ns)
	s.awaitCount(t, len(held), configMaps, ns)
	for _, h := range held {
		s.awaitDeleting(t, configMaps, h)
		s.release(t, configMaps, h)
	}
	s.awaitCount(t, 0, configMaps, ns)
}

// An object that waits in foreground deletion is deleted in the foreground again.
func TestSecondForegroundDeleteChangesNothing(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "second-delete")
	o := s.create(t, configMaps, ns, "owner")
	held := s.createHeld(t, configMaps, ns, "held", blocking(o))
	for range 3 {
		s.deleteAs(t, configMaps, o, foreground)
		s.awaitDeleting(t, configMaps, held)
	}
	// One that comes while it waits is collected, and waited for.
	late := s.create(t, configMaps, ns, "late", blocking(o))
	s.awaitGone(t, configMaps, late)
	s.foregroundBarrier(t, configMaps, ns)
	s.mustWait(t, configMaps, o)
	s.deleteAs(t, configMaps, o, foreground)
	s.release(t, configMaps, held)
	s.awaitGone(t, configMaps, held)
	s.awaitGone(t, configMaps, o)
}

// TestForegroundDeletionLeavesOtherFinalizers on the owner itself.
func TestForegroundDeletionLeavesOtherFinalizers(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "owner-held")
	o := s.createHeld(t, configMaps, ns, "owner")
	d := s.create(t, configMaps, ns, "dependent", blocking(o))
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitGone(t, configMaps, d)
	await(t, "only the other finalizer to be left", func(ctx context.Context) (bool, any) {
		now, err := s.meta.Resource(configMaps.gvr).Namespace(ns).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(now.Finalizers) == 1 && now.Finalizers[0] == hold, now.Finalizers
	})
	s.release(t, configMaps, o)
	s.awaitGone(t, configMaps, o)
}

// TestCustomResourcesInForegroundDeletion have custom resources above and below others, and one
// without a namespace above two namespaces.
func TestCustomResourcesInForegroundDeletion(t *testing.T) {
	s := shared(t)
	one, two := s.namespace(t, "foreground-one"), s.namespace(t, "foreground-two")
	galaxies, crdGalaxies := s.define(t, "Cluster", "galaxies", "Galaxy")
	levers, crdLevers := s.define(t, "Namespaced", "levers", "Lever")
	o := s.create(t, galaxies, "", "owner")
	var held []*unstructured.Unstructured
	for _, ns := range []string{one, two} {
		l := s.create(t, levers, ns, "lever", blocking(o))
		s.createMany(t, 50, configMaps, ns, "dependent", blocking(l))
		held = append(held, s.createHeld(t, secrets, ns, "held", blocking(l)))
		s.create(t, levers, ns, "kept")
	}
	s.deleteAs(t, galaxies, o, foreground)
	for i, ns := range []string{one, two} {
		s.awaitCount(t, 0, configMaps, ns)
		s.awaitCount(t, 2, levers, ns)
		s.foregroundBarrier(t, levers, ns)
		s.foregroundBarrier(t, galaxies, "")
		s.mustWait(t, galaxies, o)
		s.release(t, secrets, held[i])
		s.awaitCount(t, 1, levers, ns)
	}
	s.awaitGone(t, galaxies, o)
	s.undefine(t, crdGalaxies)
	s.undefine(t, crdLevers)
}

// TestReferencesThatPointElsewhereDoNotBlock have the owner's UID, and something else that is wrong.
// The dependents are held: they are there, deleted, all the time.
func TestReferencesThatPointElsewhereDoNotBlock(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "block"), s.namespace(t, "block-elsewhere")
	o := s.create(t, configMaps, ns, "owner")
	renamed, rekinded := blocking(o), blocking(o)
	renamed.Name, rekinded.Kind = "another", "Secret"
	held := []*unstructured.Unstructured{
		s.createHeld(t, configMaps, other, "of-another-namespace", blocking(o)),
		s.createHeld(t, configMaps, ns, "of-another-kind", rekinded),
		s.createHeld(t, configMaps, ns, "of-another-name", renamed),
	}
	role := s.create(t, clusterRoles, "", "of-no-namespace-"+ns, blocking(o))
	for _, h := range held {
		s.awaitDeleting(t, configMaps, h)
	}
	s.createMany(t, 20, configMaps, ns, "dependent", blocking(o))
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitGone(t, configMaps, o)
	s.awaitCount(t, 2, configMaps, ns)
	s.mustExist(t, clusterRoles, role)
	for _, h := range held {
		s.mustExist(t, configMaps, h)
		s.release(t, configMaps, h)
		s.awaitGone(t, configMaps, h)
	}
}
