package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reap-dev/reap/tests/size"
)

// TestListsInACascadeMissNothing lists in pages and watches from there, as every informer does, while
// objects go: whatever a list shows, the watch after it shows the end of. An informer that missed one
// would keep the object for ever. Several lists have to be made of what is left in the middle of a cascade.
func TestListsInACascadeMissNothing(t *testing.T) {
	const enough, tries = 3, 10
	s := shared(t)
	middle := 0
	for try := 1; middle < enough; try++ {
		if try > tries {
			t.Fatalf("%d lists were made in the middle of %d cascades", middle, tries)
		}
		middle += s.listInACascade(t)
	}
	size.Power(t, fmt.Sprintf("lists=%d", middle))
}

// listInACascade has objects collected, lists them meanwhile, and returns how many of the lists show that
// some had gone and some had not.
func (s *server) listInACascade(t *testing.T) (middle int) {
	t.Helper()
	const n = 1000
	ns := s.namespace(t, "listed")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, n, configMaps, ns, "dependent", owner(o))
	s.delete(t, configMaps, o)
	var all []*lister
	for busy := true; busy && len(all) < 12; { // each watch slows the cascade down
		l := s.listAndWatch(t, ns)
		left := len(l.listed) - 1 // without what is in every namespace
		if busy = left > 0; busy && left < n {
			middle++
		}
		all = append(all, l)
	}
	s.awaitCount(t, 0, configMaps, ns)
	last := s.create(t, configMaps, ns, "last")
	for i, l := range all {
		await(t, fmt.Sprintf("watch %d to show what is left", i), func(context.Context) (bool, any) {
			left := l.left()
			return slices.Equal(left, []string{rootCA, last.GetName()}), left
		})
	}
	return middle
}

// lister knows what a list has shown, and the events after it.
type lister struct {
	listed map[string]bool
	mu     sync.Mutex
	there  map[string]bool
}

func (s *server) listAndWatch(t *testing.T, ns string) *lister {
	t.Helper()
	client := s.meta.Resource(configMaps.gvr).Namespace(ns)
	l := &lister{listed: map[string]bool{}}
	version := ""
	for o := (metav1.ListOptions{Limit: 20}); ; {
		page, err := client.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Items {
			l.listed[m.Name] = true
		}
		version, o.Continue = page.ResourceVersion, page.Continue
		if o.Continue == "" {
			break
		}
	}
	l.there = maps.Clone(l.listed)
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range w.ResultChan() {
			m, ok := e.Object.(metav1.Object)
			if !ok {
				return // it was stopped; one that ends before does not show what is left
			}
			l.mu.Lock()
			if e.Type == watch.Deleted {
				delete(l.there, m.GetName())
			} else {
				l.there[m.GetName()] = true
			}
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() { w.Stop(); watching.Wait() })
	return l
}

func (l *lister) left() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.there))
}

// mustListAnew fails the test unless a client that watches configMaps from a version is told that this has expired.
func (s *server) mustListAnew(t *testing.T, ns, version string) {
	t.Helper()
	w, err := s.meta.Resource(configMaps.gvr).Namespace(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err == nil {
		err = refusal(w)
		w.Stop()
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from %s: %v", version, err)
	}
}

// refusal returns the error that a watch begins with, or why it shows none.
func refusal(w watch.Interface) error {
	select {
	case e, open := <-w.ResultChan():
		if !open {
			return errors.New("it has ended without a word")
		}
		return apierrors.FromObject(e.Object)
	case <-time.After(patience):
		return fmt.Errorf("it shows nothing for %s", patience)
	}
}
