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
	"k8s.io/apimachinery/pkg/types"
)

// inners is how many objects an interruptedForeground has between its root and its leaves.
const inners = 4

// interruptedForeground is a foreground deletion of three levels, which must end in order.
type interruptedForeground struct {
	leaves  int // of each inner
	ns      string
	root    *unstructured.Unstructured
	gone    []string
	owners  map[types.UID]*unstructured.Unstructured
	version string // before the deletion
	deleted func()
}

func (f *interruptedForeground) create(t *testing.T, s *server) {
	t.Helper()
	f.ns = s.namespace(t, "foreground")
	f.root = s.create(t, configMaps, f.ns, "root")
	other := s.create(t, configMaps, f.ns, "other")
	f.gone = []string{line(configMaps.gvr.GroupResource(), f.ns, "root")}
	for i := range inners {
		name := fmt.Sprintf("inner-%d", i)
		inner := s.create(t, configMaps, f.ns, name, blocking(f.root))
		s.createMany(t, f.leaves, configMaps, f.ns, "leaf-of-"+name, blocking(inner))
		f.gone = append(append(f.gone, many(f.leaves, configMaps, f.ns, "leaf-of-"+name)...), line(configMaps.gvr.GroupResource(), f.ns, name))
	}
	s.createMany(t, 100, configMaps, f.ns, "of-another", blocking(other))
	s.createMany(t, 100, secrets, f.ns, "unowned")
	f.owners = map[types.UID]*unstructured.Unstructured{}
	list, err := s.dyn.Resource(configMaps.gvr).Namespace(f.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		f.owners[list.Items[i].GetUID()] = &list.Items[i]
	}
}

func (f *interruptedForeground) begin(t *testing.T, s *server) {
	t.Helper()
	f.version = s.version(t, configMaps)
	f.deleted = s.watchDeletions(t, configMaps, f.ns)
	s.deleteAs(t, configMaps, f.root, foreground)
}

func (f *interruptedForeground) awaitTenth(t *testing.T, _ *server) {
	t.Helper()
	for range inners * f.leaves / 10 {
		f.deleted()
	}
}

func (f *interruptedForeground) mustBeUnderWay(t *testing.T, s *server) {
	t.Helper()
	left := s.count(t, configMaps, f.ns) - 100 - 1
	if left <= 1+inners || left >= inners*f.leaves {
		t.Fatalf("%d objects were left: the deletion was not interrupted", left)
	}
	t.Logf("%d of %d objects were left", left, 1+inners+inners*f.leaves)
	s.mustWait(t, configMaps, f.root)
}

func (f *interruptedForeground) mustEnd(t *testing.T, s *server) (gone, changed []string) {
	t.Helper()
	events := s.recordFrom(t, configMaps, f.ns, f.version).awaitEnd(t, f.root)
	// Whatever is deleted, its owner is not gone yet.
	ended := map[types.UID]bool{}
	for _, uid := range ends(events) {
		o := f.owners[uid]
		for _, r := range o.GetOwnerReferences() {
			if ended[r.UID] {
				t.Errorf("%s outlived its owner %s", o.GetName(), r.Name)
			}
		}
		ended[uid] = true
	}
	s.foregroundBarrier(t, configMaps, f.ns)
	return f.gone, nil
}

// interruptedOrphaning is an orphaning deletion of an owner with n dependents, of which none may be lost.
type interruptedOrphaning struct {
	n            int
	ns           string
	owner, other *unstructured.Unstructured
	uids         map[string]types.UID
	freed        *recording
}

func (i *interruptedOrphaning) create(t *testing.T, s *server) {
	t.Helper()
	i.ns = s.namespace(t, "orphaning")
	i.owner, i.other = s.create(t, secrets, i.ns, "owner"), s.create(t, secrets, i.ns, "other")
	s.createMany(t, i.n/2, configMaps, i.ns, "dependent", owner(i.owner))
	s.createMany(t, i.n/2, configMaps, i.ns, "of-two", blocking(i.owner), owner(i.other))
	s.createMany(t, 100, secrets, i.ns, "of-another", owner(i.other))
	i.uids = i.all(t, s)
}

func (i *interruptedOrphaning) all(t *testing.T, s *server) map[string]types.UID {
	t.Helper()
	uids, err := s.uids(t.Context(), configMaps, i.ns)
	if err != nil {
		t.Fatal(err)
	}
	return uids
}

func (i *interruptedOrphaning) list(t *testing.T, s *server) []metav1.PartialObjectMetadata {
	t.Helper()
	list, err := s.meta.Resource(configMaps.gvr).Namespace(i.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// left counts the dependents that name their owner.
func (i *interruptedOrphaning) left(t *testing.T, s *server) (count int) {
	t.Helper()
	for _, d := range i.list(t, s) {
		if slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == i.owner.GetUID() }) {
			count++
		}
	}
	return count
}

func (i *interruptedOrphaning) begin(t *testing.T, s *server) {
	t.Helper()
	i.freed = s.record(t, configMaps, i.ns)
	s.deleteAs(t, secrets, i.owner, orphan)
}

func (i *interruptedOrphaning) awaitTenth(t *testing.T, _ *server) {
	t.Helper()
	await(t, "some dependents to be freed", func(context.Context) (bool, any) {
		i.freed.mu.Lock()
		defer i.freed.mu.Unlock()
		return len(i.freed.events) > i.n/10, len(i.freed.events)
	})
}

func (i *interruptedOrphaning) mustBeUnderWay(t *testing.T, s *server) {
	t.Helper()
	left := i.left(t, s)
	if left == 0 || left == i.n {
		t.Fatalf("%d of %d dependents still named their owner: the orphaning was not interrupted", left, i.n)
	}
	t.Logf("%d of %d dependents still named their owner", left, i.n)
	s.mustExist(t, secrets, i.owner)
}

func (i *interruptedOrphaning) mustEnd(t *testing.T, s *server) (gone, changed []string) {
	t.Helper()
	s.awaitGone(t, secrets, i.owner)
	s.barrier(t, configMaps, i.ns)
	if left := i.left(t, s); left != 0 {
		t.Errorf("%d dependents still name their owner", left)
	}
	if now := i.all(t, s); !maps.Equal(now, i.uids) {
		t.Errorf("of %d objects, %d are left", len(i.uids), len(now))
	}
	theirs := []metav1.OwnerReference{owner(i.other)}
	for _, d := range i.list(t, s) {
		var want []metav1.OwnerReference
		if strings.HasPrefix(d.Name, "of-two") {
			want = theirs
		}
		if got, want := asJSON(t, d.OwnerReferences), asJSON(t, want); got != want {
			t.Errorf("%s: references %s, want %s", d.Name, got, want)
		}
	}
	for name := range i.uids {
		changed = append(changed, line(configMaps.gvr.GroupResource(), i.ns, name))
	}
	return []string{line(secrets.gvr.GroupResource(), i.ns, "owner")}, changed
}
