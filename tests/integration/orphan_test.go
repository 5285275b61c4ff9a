package integration

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"golang.org/x/sync/errgroup"
)

// TestOrphaningLeavesDependentsAndTheirOtherOwners does it in both ways that there are to ask for it.
func TestOrphaningLeavesDependentsAndTheirOtherOwners(t *testing.T) {
	s := shared(t)
	yes := true
	pulleys, crd := s.define(t, "Namespaced", "pulleys", "Pulley")
	for name, opts := range map[string]metav1.DeleteOptions{
		"policy": {PropagationPolicy: &orphan},
		"option": {OrphanDependents: &yes},
	} {
		for _, k := range []kind{configMaps, pulleys} {
			t.Run(name+" "+k.kind, func(t *testing.T) {
				ns := s.namespace(t, "orphan")
				o, other := s.create(t, k, ns, "owner"), s.create(t, secrets, ns, "other")
				theirs := owner(other)
				theirs.Controller, theirs.BlockOwnerDeletion = &yes, &yes
				var dependents, untouched []*unstructured.Unstructured
				kinds := []kind{configMaps, k}
				for i := range 60 {
					refs := [][]metav1.OwnerReference{
						{owner(o)}, {blocking(o)}, {theirs, owner(o)}, {blocking(o), theirs},
					}[i%4]
					d := object(kinds[i/4%2], fmt.Sprintf("dependent-%d", i), refs...)
					d.SetAnnotations(map[string]string{"a": "b"})
					if i%3 == 0 {
						d.SetFinalizers([]string{hold})
					}
					d, err := s.dyn.Resource(kinds[i/4%2].gvr).Namespace(ns).Create(t.Context(), d, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					dependents = append(dependents, d)
					untouched = append(untouched, s.create(t, configMaps, ns, fmt.Sprintf("grandchild-%d", i), blocking(d)))
				}
				untouched = append(untouched, s.create(t, configMaps, ns, "unowned"), s.create(t, configMaps, ns, "of-another", theirs))

				s.deleteWith(t, k, o, opts)
				s.awaitGone(t, k, o)
				s.barrier(t, configMaps, ns)
				s.barrier(t, k, ns)
				for i, d := range dependents {
					s.mustBeFreedOf(t, kinds[i/4%2], d, o.GetUID())
				}
				for _, u := range untouched {
					s.mustBeAsMade(t, configMaps, u)
				}
				for i, d := range dependents {
					if i%3 == 0 {
						s.release(t, kinds[i/4%2], d)
					}
				}
			})
		}
	}
	s.undefine(t, crd)
}

// TestOrphaningGoesThroughAllNamespaces has an owner without one.
func TestOrphaningGoesThroughAllNamespaces(t *testing.T) {
	s := shared(t)
	one, two := s.namespace(t, "orphan-one"), s.namespace(t, "orphan-two")
	comets, crd := s.define(t, "Cluster", "comets", "Comet")
	o := s.create(t, comets, "", "owner")
	moon := s.create(t, comets, "", "dependent", owner(o))
	var dependents []*unstructured.Unstructured
	for i := range 40 {
		dependents = append(dependents, s.create(t, configMaps, []string{one, two}[i%2], fmt.Sprintf("dependent-%d", i), blocking(o)))
	}
	s.deleteAs(t, comets, o, orphan)
	s.awaitGone(t, comets, o)
	s.barrier(t, comets, "")
	s.mustBeFreedOf(t, comets, moon, o.GetUID())
	for _, d := range dependents {
		s.mustBeFreedOf(t, configMaps, d, o.GetUID())
	}
	s.undefine(t, crd)
}

// awaitFreed waits until n objects of a kind are there and none has an owner.
func (s *server) awaitFreed(t *testing.T, k kind, ns string, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d of %s without owners", n, k.gvr.Resource), func(ctx context.Context) (bool, any) {
		list, err := s.meta.Resource(k.gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		there, owned := 0, 0
		for _, o := range list.Items {
			if o.Name != rootCA {
				there++
			}
			if len(o.OwnerReferences) > 0 {
				owned++
			}
		}
		return there == n && owned == 0, fmt.Sprintf("%d, %d of them with owners", there, owned)
	})
}

// TestDefaultPolicies deletes without a policy: two resources orphan by default.
func TestDefaultPolicies(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "defaults")
	labels := map[string]any{"app": "none"}
	template := map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "none", "image": "none"}}},
	}
	for _, tc := range []struct {
		k       kind
		spec    map[string]any
		orphans bool
	}{
		{kind{schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}, "ReplicationController"},
			map[string]any{"replicas": int64(0), "selector": labels, "template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "none", "image": "none"}}},
			}}, true},
		{kind{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job"},
			map[string]any{"suspend": true, "template": template}, true},
		{configMaps, nil, false},
	} {
		t.Run(tc.k.kind, func(t *testing.T) {
			o := object(tc.k, "owner")
			if tc.spec != nil {
				o.Object["spec"] = tc.spec
			}
			o, err := s.dyn.Resource(tc.k.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			d := s.create(t, secrets, ns, "of-"+tc.k.gvr.Resource, owner(o))
			s.deleteWith(t, tc.k, o, metav1.DeleteOptions{})
			s.awaitGone(t, tc.k, o)
			if !tc.orphans {
				s.awaitGone(t, secrets, d)
				return
			}
			s.barrier(t, secrets, ns)
			s.mustBeFreedOf(t, secrets, d, o.GetUID())
		})
	}
}

// Dependents created during the orphaning are freed like earlier ones. So are those created after the owner
// is gone, although Kubernetes does not promise that.
func TestDependentsCreatedDuringOrphaningAreOrphaned(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "orphan-late")
	o := s.create(t, secrets, ns, "owner")
	s.createMany(t, 1000, configMaps, ns, "early", owner(o))
	r := s.record(t, secrets, ns)
	m := s.keepMaking(t, ns, o, 2000)
	s.deleteAs(t, secrets, o, orphan)
	deleted := r.awaitEnd(t, o)
	m.end(t)
	s.mustAllBeFreed(t, ns, 1000, m, deleted[len(deleted)-1].Object.(metav1.Object))
}

// TestOrphaningEndsThoughDependentsKeepComing: nobody waits for ever because somebody else does not
// stop.
func TestOrphaningEndsThoughDependentsKeepComing(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "orphan-endless")
	o := s.create(t, secrets, ns, "owner")
	r := s.record(t, secrets, ns)
	m := s.keepMaking(t, ns, o, math.MaxInt)
	s.deleteAs(t, secrets, o, orphan)
	deleted := r.awaitEnd(t, o)
	m.end(t)
	s.mustAllBeFreed(t, ns, 0, m, deleted[len(deleted)-1].Object.(metav1.Object))
}

// maker makes dependents of an owner all the time.
type maker struct {
	stop context.CancelFunc
	g    errgroup.Group
	mu   sync.Mutex
	made []*unstructured.Unstructured
}

// keepMaking makes dependents until it is told to end, or there are limit. It returns when there are
// some.
func (s *server) keepMaking(t *testing.T, ns string, o *unstructured.Unstructured, limit int) *maker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &maker{stop: cancel}
	for i := range 4 {
		m.g.Go(func() error {
			for n := 0; n < limit/4 && ctx.Err() == nil; n++ {
				d, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).Create(t.Context(), object(configMaps, fmt.Sprintf("late-%d-%d", i, n), owner(o)), metav1.CreateOptions{})
				if err != nil {
					return err
				}
				m.mu.Lock()
				m.made = append(m.made, d)
				m.mu.Unlock()
			}
			return nil
		})
	}
	t.Cleanup(func() {
		m.stop()
		_ = m.g.Wait() // end has reported it, or another failure matters more
		t.Logf("%d dependents were made meanwhile", len(m.made))
	})
	await(t, "some dependents to be made", func(context.Context) (bool, any) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.made) > 20, len(m.made)
	})
	return m
}

func (m *maker) end(t *testing.T) {
	t.Helper()
	m.stop()
	if err := m.g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// mustAllBeFreed checks that all that a maker has made is there, without an owner, beside others.
func (s *server) mustAllBeFreed(t *testing.T, ns string, others int, m *maker, o metav1.Object) {
	t.Helper()
	deleted, late := version(t, o), 0
	for _, d := range m.made {
		if version(t, d) > deleted {
			late++
		}
	}
	t.Logf("%d of them after the owner's end", late)
	s.awaitFreed(t, configMaps, ns, others+len(m.made))
	s.barrier(t, configMaps, ns)
	now, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.made {
		if now[d.GetName()] != d.GetUID() {
			t.Errorf("%s was made as version %d, the owner ended with %d: it is lost", d.GetName(), version(t, d), deleted)
		}
	}
}

func version(t *testing.T, o metav1.Object) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
