package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reap-dev/reap/tests/size"
)

func TestForegroundDeletionSurvivesSIGTERM(t *testing.T) {
	t.Parallel()
	interruptedForeground(t, (*server).stop)
}

func TestForegroundDeletionSurvivesKill(t *testing.T) {
	t.Parallel()
	interruptedForeground(t, func(s *server, _ *testing.T) { s.kill() })
}

// interruptedForeground ends a server in the middle of a foreground deletion of three levels and lets
// another finish it, in order.
func interruptedForeground(t *testing.T, end func(*server, *testing.T)) {
	const inners = 4
	leaves := interruptedAfterATenth() / inners
	s := start(t, "--gc-workers=1")
	args := slices.Clone(s.args)
	ns := s.namespace(t, "interrupted")
	root, other := s.create(t, configMaps, ns, "root"), s.create(t, configMaps, ns, "other")
	gone := []string{line(configMaps.gvr.GroupResource(), ns, "root")}
	var inner []*unstructured.Unstructured
	for i := range inners {
		name := fmt.Sprintf("inner-%d", i)
		inner = append(inner, s.create(t, configMaps, ns, name, blocking(root)))
		s.createMany(t, leaves, configMaps, ns, "leaf-of-"+name, blocking(inner[i]))
		gone = append(append(gone, many(leaves, configMaps, ns, "leaf-of-"+name)...), line(configMaps.gvr.GroupResource(), ns, name))
	}
	s.createMany(t, 100, configMaps, ns, "of-another", blocking(other))
	s.createMany(t, 100, secrets, ns, "unowned")
	owners := map[string]*unstructured.Unstructured{}
	list, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		owners[string(list.Items[i].GetUID())] = &list.Items[i]
	}
	before := s.inventory(t)

	version := s.version(t, configMaps)
	deleted := s.watchDeletions(t, configMaps, ns)
	s.deleteAs(t, configMaps, root, foreground)
	for range inners * leaves / 10 {
		deleted()
	}
	end(s, t)

	s.restart(t, append(slices.Clone(args), "--disable=gc")...)
	left := s.count(t, configMaps, ns) - 100 - 1
	if left <= 1+inners || left >= inners*leaves {
		t.Fatalf("%d objects were left: the deletion was not interrupted", left)
	}
	t.Logf("%d of %d objects were left", left, 1+inners+inners*leaves)
	s.mustWait(t, configMaps, root)
	s.stop(t)

	s.restart(t, args...)
	events := s.recordFrom(t, configMaps, ns, version).awaitEnd(t, root)
	// Whatever is deleted, its owner is not gone yet.
	ended := map[string]bool{}
	for _, uid := range ends(events) {
		o := owners[string(uid)]
		for _, r := range o.GetOwnerReferences() {
			if ended[string(r.UID)] {
				t.Errorf("%s outlived its owner %s", o.GetName(), r.Name)
			}
		}
		ended[string(uid)] = true
	}
	s.foregroundBarrier(t, configMaps, ns)
	before.mustBe(t, s.inventory(t), gone)
}

func TestOrphaningSurvivesSIGTERM(t *testing.T) {
	t.Parallel()
	interruptedOrphaning(t, (*server).stop)
}

func TestOrphaningSurvivesKill(t *testing.T) {
	t.Parallel()
	interruptedOrphaning(t, func(s *server, _ *testing.T) { s.kill() })
}

// interruptedOrphaning ends a server in the middle of an orphaning deletion; nothing may be lost.
func interruptedOrphaning(t *testing.T, end func(*server, *testing.T)) {
	n := size.Of(1000, 1000, 2000) // a server that is asked to end frees some more
	s := start(t, "--gc-workers=1")
	args := slices.Clone(s.args)
	ns := s.namespace(t, "interrupted")
	o, other := s.create(t, secrets, ns, "owner"), s.create(t, secrets, ns, "other")
	s.createMany(t, n/2, configMaps, ns, "dependent", owner(o))
	s.createMany(t, n/2, configMaps, ns, "of-two", blocking(o), owner(other))
	s.createMany(t, 100, secrets, ns, "of-another", owner(other))
	before := s.inventory(t)
	uids, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	with := func() (count int) {
		t.Helper()
		list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Items {
			if slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
				count++
			}
		}
		return count
	}

	r := s.record(t, configMaps, ns)
	s.deleteAs(t, secrets, o, orphan)
	await(t, "some dependents to be freed", func(context.Context) (bool, any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.events) > n/10, len(r.events)
	})
	end(s, t)

	s.restart(t, append(slices.Clone(args), "--disable=gc")...)
	left := with()
	if left == 0 || left == n {
		t.Fatalf("%d of %d dependents still named their owner: the orphaning was not interrupted", left, n)
	}
	t.Logf("%d of %d dependents still named their owner", left, n)
	s.mustExist(t, secrets, o)
	s.stop(t)

	s.restart(t, args...)
	s.awaitGone(t, secrets, o)
	s.barrier(t, configMaps, ns)
	if left := with(); left != 0 {
		t.Errorf("%d dependents still name their owner", left)
	}
	now, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(now, uids) {
		t.Errorf("of %d objects, %d are left", len(uids), len(now))
	}
	list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := []metav1.OwnerReference{owner(other)}
	for _, d := range list.Items {
		var want []metav1.OwnerReference
		if strings.HasPrefix(d.Name, "of-two") {
			want = theirs
		}
		if got, want := asJSON(t, d.OwnerReferences), asJSON(t, want); got != want {
			t.Errorf("%s: references %s, want %s", d.Name, got, want)
		}
	}
	// What was changed has been compared; of all else, only the owner is gone.
	for name := range uids {
		delete(before, line(configMaps.gvr.GroupResource(), ns, name))
	}
	before.mustBe(t, s.inventory(t), []string{line(secrets.gvr.GroupResource(), ns, "owner")})
}
