package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// seedVariable repeats a random run.
const seedVariable = "REAP_TEST_SEED"

// seedOf returns the seed of a random run and says what repeats it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// made is an object as it was made.
type made struct {
	k      kind
	o      *unstructured.Unstructured
	owners []*made
}

// survivors is the oracle, which shares no code with the collector: of objects in the order of their
// making, those stay that nobody deleted and that either had no owner or have one that stays.
func survivors(all []*made, deleted map[*made]bool) map[*made]bool {
	stay := map[*made]bool{}
	for _, m := range all {
		stay[m] = !deleted[m] &&
			(len(m.owners) == 0 || slices.ContainsFunc(m.owners, func(o *made) bool { return stay[o] }))
	}
	return stay
}

// TestRandomOwners makes objects of several kinds that own each other at random, deletes some all the
// while, and compares what is left with the oracle.
func TestRandomOwners(t *testing.T) {
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))

	s := shared(t)
	namespaces := []string{s.namespace(t, "random"), s.namespace(t, "random")}
	things, crdThings := s.define(t, "Namespaced", "things", "Thing")
	realms, crdRealms := s.define(t, "Cluster", "realms", "Realm")
	kinds := []kind{configMaps, secrets, things, realms}

	var all []*made
	deleted := map[*made]bool{}
	for i := range 600 {
		m := &made{k: kinds[random.IntN(len(kinds))]}
		ns := namespaces[random.IntN(len(namespaces))]
		if m.k == realms {
			ns = ""
		}
		var refs []metav1.OwnerReference
		for range random.IntN(4) {
			if len(all) == 0 {
				break
			}
			// Mostly a recent one: that makes deep chains.
			o := all[max(random.IntN(len(all)), random.IntN(len(all)))]
			if at := o.o.GetNamespace(); (at == "" || at == ns) && !slices.Contains(m.owners, o) {
				m.owners = append(m.owners, o)
				refs = append(refs, owner(o.o))
			}
		}
		m.o = s.create(t, m.k, ns, fmt.Sprintf("random-%d", i), refs...)
		all = append(all, m)
		if random.IntN(8) == 0 {
			s.deleteAny(t, all[random.IntN(len(all))], deleted)
		}
	}
	for range 20 {
		s.deleteAny(t, all[random.IntN(len(all))], deleted)
	}

	stay := survivors(all, deleted)
	want := map[string]string{}
	for _, m := range all {
		if stay[m] {
			var owners []types.UID
			for _, o := range m.owners {
				if stay[o] {
					owners = append(owners, o.o.GetUID())
				}
			}
			want[line(m.k.gvr.GroupResource(), m.o.GetNamespace(), m.o.GetName())] = fmt.Sprint(m.o.GetUID(), " of ", owners)
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d objects=%d deleted=%d stay=%d", seed, len(all), len(deleted), len(want)))
	look := func(ctx context.Context) (bool, any) {
		got, err := s.withOwners(ctx, kinds, append(namespaces, ""))
		return err == nil && maps.Equal(got, want), difference(got, want)
	}
	await(t, "the oracle's survivors", look)
	for _, k := range kinds[:3] {
		s.barrier(t, k, namespaces[0])
	}
	if ok, saw := look(t.Context()); !ok {
		t.Errorf("the state has changed after the collector was at rest: %v", saw)
	}
	s.undefine(t, crdThings)
	s.undefine(t, crdRealms)
}

// deleteAny deletes an object, which may be gone already.
func (s *server) deleteAny(t *testing.T, m *made, deleted map[*made]bool) {
	t.Helper()
	uid, background := m.o.GetUID(), metav1.DeletePropagationBackground
	err := s.dyn.Resource(m.k.gvr).Namespace(m.o.GetNamespace()).Delete(t.Context(), m.o.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	deleted[m] = true
}

// withOwners returns the objects of these kinds in these namespaces, with the UIDs of their owners.
func (s *server) withOwners(ctx context.Context, kinds []kind, namespaces []string) (map[string]string, error) {
	found := map[string]string{}
	for _, k := range kinds {
		list, err := s.meta.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if o.Name == rootCA || !slices.Contains(namespaces, o.Namespace) {
				continue
			}
			var owners []types.UID
			for _, r := range o.OwnerReferences {
				owners = append(owners, r.UID)
			}
			found[line(k.gvr.GroupResource(), o.Namespace, o.Name)] = fmt.Sprint(o.UID, " of ", owners)
		}
	}
	return found, nil
}

func difference(got, want map[string]string) (lines []string) {
	for l := range want {
		if got[l] != want[l] {
			lines = append(lines, fmt.Sprintf("%s: got %q, want %q", l, got[l], want[l]))
		}
	}
	for l := range got {
		if _, ok := want[l]; !ok {
			lines = append(lines, fmt.Sprintf("%s: got %q, want none", l, got[l]))
		}
	}
	slices.Sort(lines)
	return lines
}
