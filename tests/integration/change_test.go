package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

// conflicts counts the deletes that the server has refused the collector because somebody changed the
// object in time.
func (s *server) conflicts(t *testing.T) float64 {
	t.Helper()
	return s.sum(t, "reap_gc_conflicts_total", `verb="delete"`)
}

// changeTries bounds how often a test repeats what is likely to meet what it is about.
const changeTries = 20

// TestUpdatesDoNotStarveCollection has objects that change all the time, each under the collector's
// hands: at least one delete meets a change.
func TestUpdatesDoNotStarveCollection(t *testing.T) {
	s := shared(t)
	before := s.conflicts(t)
	for try := 1; s.conflicts(t) == before; try++ {
		if try > changeTries {
			t.Fatalf("no delete of %d has met a change", 4*changeTries)
		}
		s.collectUpdated(t)
	}
	size.Power(t, fmt.Sprintf("conflicts=%v", s.conflicts(t)-before))
}

// collectUpdated has four dependents collected that are updated until they are gone.
func (s *server) collectUpdated(t *testing.T) {
	t.Helper()
	ns := s.namespace(t, "updated")
	o := s.create(t, configMaps, ns, "owner")
	var g errgroup.Group
	var updates atomic.Int64
	for i := range 4 {
		name := s.create(t, configMaps, ns, fmt.Sprintf("dependent-%d", i), owner(o)).GetName()
		g.Go(func() error { // until there is nothing to update
			for n := 0; ; n++ {
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
				_, err := s.kube.CoreV1().ConfigMaps(ns).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				if err != nil {
					return err
				}
				updates.Add(1)
			}
		})
	}
	await(t, "updates", func(context.Context) (bool, any) { return updates.Load() > 20, updates.Load() })
	s.delete(t, configMaps, o)
	s.awaitCount(t, 0, configMaps, ns)
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOwnerAddedInTimeKeepsTheDependent gives dependents another owner while they lose theirs. Whoever is told that
// this worked must find the object there for good. Some come in time, some do not, and some come between
// the decision to delete an object and the delete.
func TestOwnerAddedInTimeKeepsTheDependent(t *testing.T) {
	s := shared(t)
	before, saved, lost := s.conflicts(t), 0, 0
	for try := 1; saved == 0 || lost == 0 || s.conflicts(t) == before; try++ {
		if try > changeTries {
			t.Fatalf("%d were saved and %d were not, and %v deletes met the new owner", saved, lost, s.conflicts(t)-before)
		}
		count, of := s.saveSome(t)
		saved, lost = saved+count, lost+of-count
	}
	size.Power(t, fmt.Sprintf("saved=%d lost=%d conflicts=%v", saved, lost, s.conflicts(t)-before))
}

// saveSome gives n dependents another owner while they are collected, and returns how many came in time.
func (s *server) saveSome(t *testing.T) (count, of int) {
	t.Helper()
	const n = 500
	ns := s.namespace(t, "saved")
	o, saviour := s.create(t, configMaps, ns, "owner"), s.create(t, secrets, ns, "saviour")
	s.createMany(t, n, configMaps, ns, "dependent", owner(o))
	uids, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"ownerReferences": []metav1.OwnerReference{owner(o), owner(saviour)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.delete(t, configMaps, o)
	var saved [n]bool
	var g errgroup.Group
	g.SetLimit(8)
	for i := n - 1; i >= 0; i-- { // the collector works from the other end
		g.Go(func() error {
			_, err := s.kube.CoreV1().ConfigMaps(ns).Patch(t.Context(), fmt.Sprintf("dependent-%d", i), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			saved[i] = err == nil
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, ok := range saved {
		if ok {
			count++
		}
	}
	s.awaitCount(t, count, configMaps, ns)
	s.barrier(t, configMaps, ns)
	now, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	for i, ok := range saved {
		name := fmt.Sprintf("dependent-%d", i)
		if ok && now[name] != uids[name] {
			t.Errorf("%s was given an owner that exists, and is gone", name)
		}
	}
	s.delete(t, secrets, saviour)
	s.awaitCount(t, 0, configMaps, ns)
	return count, n
}
