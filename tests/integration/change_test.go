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
)

// TestUpdatesDoNotStarveCollection has objects that change all the time, each under the collector's
// hands.
func TestUpdatesDoNotStarveCollection(t *testing.T) {
	s := shared(t)
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

// TestOwnerAddedInTimeSaves gives dependents another owner while they lose theirs. Whoever is told that
// this worked must find the object there for good.
func TestOwnerAddedInTimeSaves(t *testing.T) {
	const n = 500
	s := shared(t)
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
	count := 0
	for _, ok := range saved {
		if ok {
			count++
		}
	}
	t.Logf("%d of %d were saved", count, n)
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
}
