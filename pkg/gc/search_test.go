package gc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
)

// library is what a search lists: a namespaced resource, a cluster-scoped one, and one that has no monitor.
type library struct {
	search
	mu      sync.Mutex
	asked   []string // resource/namespace
	objects []*graph.Record
	fail    string // the resource that cannot be listed
	during  func()
}

func newLibrary() *library {
	l := &library{}
	catalog := graph.NewCatalog([]*graph.Resource{
		{Name: "globals", Kind: "Global", Versions: []string{"v1"}, Monitored: true},
		{Name: "secrets", Kind: "Secret", Versions: []string{"v1"}, Namespaced: true},
		{Name: "things", Kind: "Thing", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	})
	l.search = search{catalog: func() *graph.Catalog { return catalog }, list: l.answer, holds: func() error { return nil }}
	return l
}

func (l *library) answer(_ context.Context, r *graph.Resource, namespace string, each func(*graph.Record)) error {
	l.mu.Lock()
	l.asked = append(l.asked, r.Name+"/"+namespace)
	during := l.during
	l.mu.Unlock()
	if during != nil {
		during()
	}
	if r.Name == l.fail {
		return errors.New("no")
	}
	if r.Name == "things" {
		for _, o := range l.objects {
			each(o)
		}
	}
	return nil
}

func (l *library) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(l.asked, want) {
		t.Errorf("asked for %v, want %v", l.asked, want)
	}
	l.asked = nil
}

func thing(name string, owners ...types.UID) *graph.Record {
	r := &graph.Record{Namespace: "ns", Name: name, UID: types.UID(name)}
	for i, o := range owners {
		r.References = append(r.References, graph.Reference{APIVersion: "v1", Kind: "Thing", Name: "o", UID: o, Controller: graph.Flag(i % 3)})
	}
	return r
}

// A namespaced owner has dependents only in its own namespace. Resources without a monitor are not
// collected and so not searched.
func TestSearchListsResourcesThatMayHoldDependents(t *testing.T) {
	l := newLibrary()
	l.objects = []*graph.Record{thing("a", "o"), thing("b", "x"), thing("c", "x", "o", "o")}
	found, err := l.dependents(t.Context(), "o", "ns")
	if err != nil || len(found) != 2 || found[0].Record.Name != "a" || found[1].Record.Name != "c" {
		t.Errorf("found %v, %v", found, err)
	}
	l.wantAsked(t, "things/ns")
	if _, err := l.dependents(t.Context(), "o", ""); err != nil {
		t.Error(err)
	}
	l.wantAsked(t, "globals/", "things/")
	if n := len(l.byNamespace); n != 0 {
		t.Errorf("%d namespaces are remembered that nobody asks about", n)
	}
}

// A resource that failed is listed first, so that a search costs one call as long as the failure lasts.
func TestSearchFailsWithOneResource(t *testing.T) {
	l := newLibrary()
	l.fail = "things"
	for range 2 {
		if _, err := l.dependents(t.Context(), "o", ""); err == nil {
			t.Error("half a search passes for a whole one")
		}
	}
	l.wantAsked(t, "globals/", "things/", "things/")
	l.fail = ""
	if _, err := l.dependents(t.Context(), "o", ""); err != nil {
		t.Error(err)
	}
	l.wantAsked(t, "things/", "globals/")
	if n := len(l.byNamespace); n != 0 {
		t.Errorf("%d namespaces are remembered that nobody asks about", n)
	}
}

func TestSearchListsNothingWhileAResourceHolds(t *testing.T) {
	l := newLibrary()
	holds := errors.New("a CRD serves no version")
	l.holds = func() error { return holds }
	if _, err := l.dependents(t.Context(), "o", "ns"); !errors.Is(err, holds) {
		t.Errorf("the search ended with %v", err)
	}
	l.wantAsked(t)
}

// Searches that begin during a pass share the next pass, which begins after them.
func TestSearchesShareAPass(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLibrary()
		l.objects = []*graph.Record{thing("a", "1"), thing("b", "2"), thing("c", "3")}
		began, goOn := make(chan struct{}), make(chan struct{})
		l.during = func() { began <- struct{}{}; <-goOn }
		var all sync.WaitGroup
		ask := func(uid types.UID) {
			all.Go(func() {
				found, err := l.dependents(t.Context(), uid, "ns")
				if err != nil || len(found) != 1 {
					t.Errorf("%s: found %v, %v", uid, found, err)
				}
			})
		}
		ask("1")
		<-began
		ask("2")
		ask("3")
		synctest.Wait()
		goOn <- struct{}{}
		<-began // the second pass
		l.search.mu.Lock()
		in := l.byNamespace["ns"]
		l.search.mu.Unlock()
		in.mu.Lock()
		if n := len(in.next); n != 0 {
			t.Errorf("%d questions that are being answered wait for an answer", n)
		}
		in.mu.Unlock()
		goOn <- struct{}{}
		all.Wait()
		l.wantAsked(t, "things/ns", "things/ns")
	})
}
