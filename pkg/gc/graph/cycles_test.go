package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// ringWorld is a graph of one kind in which all objects are in foreground deletion
// unless said otherwise.
type ringWorld struct {
	*Graph
	t *testing.T
}

var rings = schema.GroupResource{Resource: "rings"}

func newRingWorld(t *testing.T) *ringWorld {
	g := New()
	g.SetCatalog(NewCatalog([]*Resource{{Name: "rings", Kind: "Ring", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}), epoch)
	g.AddResource(rings, schema.GroupKind{Kind: "Ring"}, epoch)
	return &ringWorld{Graph: g, t: t}
}

// put shows an object that blocks owners.
func (w *ringWorld) put(name string, waits bool, owners ...string) {
	r := &Record{Namespace: "n", Name: name, UID: types.UID(name), ResourceVersion: "1", Deleting: waits, Foreground: waits}
	for _, o := range owners {
		r.References = append(r.References, Reference{APIVersion: "v1", Kind: "Ring", Name: o, UID: types.UID(o), BlockOwnerDeletion: True})
	}
	w.Upsert(rings, r, epoch)
}

// found returns the rings as sorted names, sorted.
func (w *ringWorld) found() (all []string) {
	w.t.Helper()
	if err := w.Check(); err != nil {
		w.t.Fatal(err)
	}
	for _, ring := range w.Cycles() {
		var names []string
		for _, m := range ring {
			names = append(names, m.Record.Name)
			if len(m.Blocking) == 0 {
				w.t.Errorf("%s is a member that blocks nobody", m.Record.Name)
			}
		}
		slices.Sort(names)
		all = append(all, strings.Join(names, " "))
	}
	slices.Sort(all)
	return all
}

func TestCycles(t *testing.T) {
	for name, tc := range map[string]struct {
		put  func(*ringWorld)
		want []string
	}{
		"none":          {func(w *ringWorld) { w.put("a", true); w.put("b", true) }, nil},
		"chain":         {func(w *ringWorld) { w.put("a", true); w.put("b", true, "a"); w.put("c", true, "b") }, nil},
		"self":          {func(w *ringWorld) { w.put("a", true, "a") }, []string{"a"}},
		"two":           {func(w *ringWorld) { w.put("a", true, "b"); w.put("b", true, "a") }, []string{"a b"}},
		"three":         {func(w *ringWorld) { w.put("a", true, "c"); w.put("b", true, "a"); w.put("c", true, "b") }, []string{"a b c"}},
		"two of three":  {func(w *ringWorld) { w.put("a", true, "c"); w.put("b", false, "a"); w.put("c", true, "b") }, nil},
		"shared member": {func(w *ringWorld) { w.put("a", true, "b", "c"); w.put("b", true, "a"); w.put("c", true, "a") }, []string{"a b c"}},
		"two apart":     {func(w *ringWorld) { w.put("a", true, "b"); w.put("b", true, "a"); w.put("c", true, "c", "a") }, []string{"a b", "c"}},
		"tail into":     {func(w *ringWorld) { w.put("a", true, "b"); w.put("b", true, "a"); w.put("t", true, "a") }, []string{"a b"}},
		"tail out of":   {func(w *ringWorld) { w.put("a", true, "b", "t"); w.put("b", true, "a"); w.put("t", true) }, []string{"a b"}},
		"diamond": {func(w *ringWorld) {
			w.put("a", true)
			w.put("b", true, "a")
			w.put("c", true, "a")
			w.put("d", true, "b", "c")
		}, nil},
		"absent member":  {func(w *ringWorld) { w.put("a", true, "b") }, nil},
		"deep chain end": {func(w *ringWorld) { w.put("a", true); w.put("b", true, "a"); w.put("c", true, "b", "c") }, []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRingWorld(t)
			tc.put(w)
			if got := w.found(); !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// Some references look like blocking references to a member and are not: they
// differ in name, kind, group or UID, their version is not served, or they do not
// block.
func TestOnlyCertainReferencesMakeARing(t *testing.T) {
	for name, change := range map[string]func(*Reference){
		"name":       func(r *Reference) { r.Name = "x" },
		"kind":       func(r *Reference) { r.Kind = "Other" },
		"version":    func(r *Reference) { r.APIVersion = "v9" },
		"group":      func(r *Reference) { r.APIVersion = "x.io/v1" },
		"unset":      func(r *Reference) { r.BlockOwnerDeletion = Unset },
		"no":         func(r *Reference) { r.BlockOwnerDeletion = False },
		"uid":        func(r *Reference) { r.UID = "x" },
		"no version": func(r *Reference) { r.APIVersion = "a/b/c" },
	} {
		w := newRingWorld(t)
		r := Reference{APIVersion: "v1", Kind: "Ring", Name: "a", UID: "a", BlockOwnerDeletion: True}
		change(&r)
		w.Upsert(rings, &Record{Namespace: "n", Name: "a", UID: "a", Deleting: true, Foreground: true, References: []Reference{r}}, epoch)
		if got := w.found(); got != nil {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// Rings may have any length: nothing recurses.
func TestLongRing(t *testing.T) {
	n := size.Of(20_000, 200_000, 200_000)
	w := newRingWorld(t)
	for i := range n {
		w.put(fmt.Sprint(i), true, fmt.Sprint((i+1)%n))
	}
	if got := w.Cycles(); len(got) != 1 || len(got[0]) != n {
		t.Errorf("found %d rings, want one of all members", len(got))
	}
}

// TestCyclesAgainstReachability compares with naively computed reachability: two
// objects are in one ring if each reaches the other.
func TestCyclesAgainstReachability(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rnd.IntN(8)
		w := newRingWorld(t)
		edge := make([][]bool, n)
		waits := make([]bool, n)
		for i := range n {
			edge[i] = make([]bool, n)
			waits[i] = rnd.IntN(5) > 0
		}
		for i := range n {
			var owners []string
			for range rnd.IntN(4) {
				o := rnd.IntN(n)
				owners = append(owners, fmt.Sprint(o))
				edge[i][o] = waits[i] && waits[o]
			}
			w.put(fmt.Sprint(i), waits[i], owners...)
		}
		reach := edge
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		var want []string
		done := make([]bool, n)
		for i := range n {
			if done[i] || !reach[i][i] {
				continue
			}
			var names []string
			for j := range n {
				if reach[i][j] && reach[j][i] {
					done[j] = true
					names = append(names, fmt.Sprint(j))
				}
			}
			slices.Sort(names)
			want = append(want, strings.Join(names, " "))
		}
		slices.Sort(want)
		if got := w.found(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: found %q, want %q", seed, got, want)
		}
	}
}
