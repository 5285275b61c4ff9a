// Package fault breaks the API server in every way that the collector has to
// survive. Each test checks the same two promises: while the fault lasts, no object
// with a living owner is deleted; when it ends, all dangling objects are collected.
package fault

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

// world is the cluster that meets every fault. Each owner has children of two kinds;
// some of them stay and some must go.
type world struct {
	*rig.Rig
	t *testing.T
}

const children = 3

// newWorld returns a world that is reached over a network.
func newWorld(t *testing.T) *world { return populate(t, rig.New(t)) }

// populate makes the world's objects on a rig's server.
func populate(t *testing.T, r *rig.Rig) *world {
	w := &world{r, t}
	w.family("living")
	w.family("doomed")
	w.orphan("ghost", children)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// family creates an owner and its children.
func (w *world) family(owner string) {
	w.t.Helper()
	w.must(w.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: owner}))
	w.orphan(owner, children)
}

// orphan creates children of an owner, which need not exist.
func (w *world) orphan(owner string, n int) {
	w.t.Helper()
	for i := range n {
		for _, resource := range []string{"pods", "secrets"} {
			w.must(w.Create(resource, metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprintf("%s-%s-%d", owner, resource, i),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner + "-1")}},
			}))
		}
	}
}

func (w *world) delete(owner string, policy metav1.DeletionPropagation) {
	w.t.Helper()
	w.must(w.Delete("configmaps", "ns", owner, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// count returns how many children of an owner exist.
func (w *world) count(owner string) int {
	n := 0
	for _, o := range w.Objects() {
		if slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == owner }) {
			n++
		}
	}
	return n
}

// wantWhole fails unless a living owner has all its children.
func (w *world) wantWhole(owner string) {
	w.t.Helper()
	if n := w.count(owner); n != 2*children {
		w.t.Errorf("%s exists and has %d children of %d", owner, n, 2*children)
	}
}

// wantEnd waits for rest and fails unless exactly the dangling objects are gone.
func (w *world) wantEnd() {
	w.t.Helper()
	w.SetFault(nil)
	w.Rest()
	w.wantWhole("living")
	for _, owner := range []string{"doomed", "ghost"} {
		if n := w.count(owner); n > 0 {
			w.t.Errorf("%s does not exist and has %d children", owner, n)
		}
	}
}

// single reports whether a call has the verb and is about a single object.
func single(c fakeapi.Call, verb string) bool { return c.Verb == verb && c.Name != "" }
