package integration

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reap-dev/reap/tests/size"
)

// interruptedAfterATenth is how many objects a cascade has that is interrupted when a tenth of it is done.
func interruptedAfterATenth() int { return size.Of(500, 500, 2000) / slowness }

func TestCascadeSurvivesSIGTERM(t *testing.T) {
	t.Parallel()
	interruptedCascade(t, interruptedAfterATenth(), (*server).stop)
}

func TestCascadeSurvivesKill(t *testing.T) {
	t.Parallel()
	interruptedCascade(t, interruptedAfterATenth(), func(s *server, _ *testing.T) { s.kill() })
}

// interruptedCascade ends a server in the middle of a cascade of n and lets another finish it, which it returns.
func interruptedCascade(t *testing.T, n int, end func(*server, *testing.T), flags ...string) *server {
	t.Helper()
	// One worker, so that there is a middle to hit.
	s := start(t, append([]string{"--gc-workers=1"}, flags...)...)
	args := slices.Clone(s.args)
	ns, bystanders := s.namespace(t, "interrupted"), s.namespace(t, "interrupted-bystanders")
	o, other := s.create(t, configMaps, ns, "owner"), s.create(t, configMaps, ns, "other")
	s.createMany(t, n, configMaps, ns, "dependent", owner(o))
	s.createMany(t, 100, configMaps, ns, "of-another", owner(other))
	s.createMany(t, 100, secrets, ns, "unowned")
	s.createMany(t, 100, configMaps, bystanders, "dependent")
	before := s.inventory(t)

	deleted := s.watchDeletions(t, configMaps, ns)
	s.delete(t, configMaps, o)
	for range n / 10 {
		deleted()
	}
	end(s, t)

	// It was the middle indeed.
	s.restart(t, append(slices.Clone(args), "--disable=gc")...)
	left := s.count(t, configMaps, ns) - 100 - 1
	if left <= 0 || left >= n {
		t.Fatalf("%d of %d dependents were left: the cascade was not interrupted", left, n)
	}
	t.Logf("%d of %d dependents were left", left, n)
	s.stop(t)

	s.restart(t, args...)
	await(t, "the server to collect", func(ctx context.Context) (bool, any) { // of several it has to lead first
		collects, err := s.collects(ctx)
		return collects, err
	})
	s.awaitCount(t, 100+1, configMaps, ns)
	s.barrier(t, configMaps, ns)
	gone := append(many(n, configMaps, ns, "dependent"), line(configMaps.gvr.GroupResource(), ns, "owner"))
	before.mustBe(t, s.inventory(t), gone)
	return s
}

// watchDeletions returns a function that waits for one object to be deleted.
func (s *server) watchDeletions(t *testing.T, k kind, ns string) func() {
	t.Helper()
	list, err := s.meta.Resource(k.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.meta.Resource(k.gvr).Namespace(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			select {
			case e := <-w.ResultChan():
				switch e.Type {
				case watch.Deleted:
					return
				case watch.Error, "": // "": the channel is closed
					t.Fatalf("the watch ended: %v", e.Object)
				}
			case <-ctx.Done():
				t.Fatal("waiting for deletions: ", ctx.Err())
			}
		}
	}
}
