package differential

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// history is every state that objects of the worlds' kinds have had on one server, in the store's order.
type history struct {
	mu     sync.Mutex
	states map[types.UID][]past
	ended  error // why a watch has ended before the test
}

// past is a state of an object, and the revision from which on it was so.
type past struct {
	from uint64
	gone bool // the state is the last one
	meta *unstructured.Unstructured
}

func (p *past) deleting() bool { return p.meta.GetDeletionTimestamp() != nil }

func (p *past) has(finalizer string) bool { return slices.Contains(p.meta.GetFinalizers(), finalizer) }

func (p *past) waits() bool {
	return p != nil && !p.gone && p.deleting() && p.has(metav1.FinalizerDeleteDependents)
}

// eachKind calls do for each kind of the worlds.
func eachKind(do func(k *kind)) {
	for i, k := range kinds {
		if !slices.Contains(kinds[:i], k) {
			do(k)
		}
	}
}

// watchAll records from now on.
func (s *side) watchAll(t *testing.T) {
	t.Helper()
	s.history = &history{states: map[types.UID][]past{}}
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); watching.Wait() })
	eachKind(func(k *kind) {
		list, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		seconds := int64(3600)
		w, err := s.dyn.Resource(k.gvr).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: &seconds})
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			for e := range w.ResultChan() {
				s.history.take(e)
			}
			if ctx.Err() == nil {
				s.history.end(fmt.Errorf("the watch of %s has ended", k.gvr.Resource))
			}
		})
	})
}

func (h *history) take(e watch.Event) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Error {
		h.end(fmt.Errorf("%v", e.Object))
		return
	}
	from, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		h.end(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[o.GetUID()] = append(h.states[o.GetUID()], past{from, e.Type == watch.Deleted, o})
}

func (h *history) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = err
	}
}

// catchUp returns once all that has happened so far is recorded.
func (s *side) catchUp(t *testing.T) {
	t.Helper()
	eachKind(func(k *kind) {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetAPIVersion(k.gvr.GroupVersion().String())
		o.SetKind(k.kind)
		o.SetGenerateName("marker-")
		ns := ""
		if k.namespaced {
			ns = barriers
		}
		client := s.dyn.Resource(k.gvr).Namespace(ns)
		o, err := client.Create(t.Context(), o, metav1.CreateOptions{})
		if err == nil {
			err = client.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			s.history.mu.Lock()
			defer s.history.mu.Unlock()
			all := s.history.states[o.GetUID()]
			return len(all) > 0 && all[len(all)-1].gone, s.history.ended
		})
		if err != nil {
			t.Fatalf("%s: recording %s: %v", s.name, k.gvr.Resource, err)
		}
	})
}

// of returns the states of an object of a world.
func (s *side) of(w *world, i int) []past {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return slices.Clone(s.history.states[s.uids[w.number][i]])
}

// just returns the state that an object had before a revision; nil if it did not exist.
func just(all []past, before uint64) (last *past) {
	for n := range all {
		if all[n].from < before {
			last = &all[n]
		}
	}
	if last != nil && last.gone {
		return nil
	}
	return last
}

// waited returns which objects of a world have ever been in foreground deletion on one of two servers.
func waited(w *world, sides ...*side) map[int]bool {
	did := map[int]bool{}
	for i := range w.objects {
		for _, s := range sides {
			did[i] = did[i] || slices.ContainsFunc(s.of(w, i), func(p past) bool { return p.waits() })
		}
	}
	return did
}
