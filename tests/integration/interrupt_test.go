package integration

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reap-dev/reap/tests/size"
)

// interruptedAfterATenth is how many objects a deletion has that is interrupted when a tenth of it is done.
func interruptedAfterATenth() int { return size.Of(500, 500, 2000) / slowness }

func TestDeletionsSurviveSIGTERM(t *testing.T) {
	t.Parallel()
	interrupt(t, (*server).stop, nil, deletionsOfEachPolicy()...)
}

func TestDeletionsSurviveKill(t *testing.T) {
	t.Parallel()
	interrupt(t, killed, nil, deletionsOfEachPolicy()...)
}

func killed(s *server, _ *testing.T) { s.kill() }

// deletionsOfEachPolicy returns one that is long enough for each policy. The namespaces take turns, and freeing has a queue of its
// own: when each has done a tenth, none is at its end.
func deletionsOfEachPolicy() []interrupted {
	n := interruptedAfterATenth()
	return []interrupted{
		&interruptedCascade{n: n},
		&interruptedForeground{leaves: n / inners},
		&interruptedOrphaning{n: size.Of(1000, 1000, 2000)}, // a server that is asked to end frees some more
	}
}

// interrupted is a deletion in a namespace of its own. Its methods are called once each, in their order.
type interrupted interface {
	// create makes the objects, and others that must stay as they are.
	create(t *testing.T, s *server)
	// begin deletes the owner.
	begin(t *testing.T, s *server)
	// awaitTenth returns when a tenth is done.
	awaitTenth(t *testing.T, s *server)
	// mustBeUnderWay fails the test if nothing is left to do, or all. The server has no collector.
	mustBeUnderWay(t *testing.T, s *server)
	// mustEnd waits for the end. It returns what must be gone, and what has changed and been checked.
	mustEnd(t *testing.T, s *server) (gone, changed []string)
}

// interrupt ends a server in the middle of deletions and lets another finish them, which it returns.
func interrupt(t *testing.T, end func(*server, *testing.T), flags []string, all ...interrupted) *server {
	t.Helper()
	// One worker, so that there is a middle to hit.
	s := start(t, append([]string{"--gc-workers=1"}, flags...)...)
	args := slices.Clone(s.args)
	for _, i := range all {
		i.create(t, s)
	}
	before := s.inventory(t)
	for _, i := range all {
		i.begin(t, s)
	}
	for _, i := range all {
		i.awaitTenth(t, s)
	}
	end(s, t)

	s.restart(t, append(slices.Clone(args), "--disable=gc")...)
	for _, i := range all {
		i.mustBeUnderWay(t, s)
	}
	s.stop(t)

	s.restart(t, args...)
	await(t, "the server to collect", func(ctx context.Context) (bool, any) { // of several it has to lead first
		collects, err := s.collects(ctx)
		return collects, err
	})
	var gone []string
	for _, i := range all {
		ended, changed := i.mustEnd(t, s)
		gone = append(gone, ended...)
		for _, l := range changed {
			delete(before, l)
		}
	}
	before.mustBe(t, s.inventory(t), gone)
	return s
}

// interruptedCascade is a background deletion of n dependents.
type interruptedCascade struct {
	n       int
	ns      string
	owner   *unstructured.Unstructured
	deleted func()
}

func (c *interruptedCascade) create(t *testing.T, s *server) {
	t.Helper()
	c.ns = s.namespace(t, "cascade")
	bystanders := s.namespace(t, "cascade-bystanders")
	c.owner = s.create(t, configMaps, c.ns, "owner")
	other := s.create(t, configMaps, c.ns, "other")
	s.createMany(t, c.n, configMaps, c.ns, "dependent", owner(c.owner))
	s.createMany(t, 100, configMaps, c.ns, "of-another", owner(other))
	s.createMany(t, 100, secrets, c.ns, "unowned")
	s.createMany(t, 100, configMaps, bystanders, "dependent")
}

func (c *interruptedCascade) begin(t *testing.T, s *server) {
	t.Helper()
	c.deleted = s.watchDeletions(t, configMaps, c.ns)
	s.delete(t, configMaps, c.owner)
}

func (c *interruptedCascade) awaitTenth(t *testing.T, _ *server) {
	t.Helper()
	for range c.n / 10 {
		c.deleted()
	}
}

func (c *interruptedCascade) mustBeUnderWay(t *testing.T, s *server) {
	t.Helper()
	left := s.count(t, configMaps, c.ns) - 100 - 1
	if left <= 0 || left >= c.n {
		t.Fatalf("%d of %d dependents were left: the cascade was not interrupted", left, c.n)
	}
	t.Logf("%d of %d dependents were left", left, c.n)
}

func (c *interruptedCascade) mustEnd(t *testing.T, s *server) (gone, changed []string) {
	t.Helper()
	s.awaitCount(t, 100+1, configMaps, c.ns)
	s.barrier(t, configMaps, c.ns)
	return append(many(c.n, configMaps, c.ns, "dependent"), line(configMaps.gvr.GroupResource(), c.ns, "owner")), nil
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
