package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type kind struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
}

var (
	configMaps   = &kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true}
	secrets      = &kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", true}
	accounts     = &kind{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount", true}
	roles        = &kind{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, "Role", true}
	clusterRoles = &kind{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", false}
	namespaces   = &kind{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false}

	kinds = []*kind{configMaps, configMaps, secrets, accounts, roles, clusterRoles}
)

// hold is a finalizer that nobody takes off.
const hold = "test.reap.dev/hold"

// world is a few objects, without UIDs: these are each server's own.
type world struct {
	number  int
	objects []*thing
	deletes []deletion
}

type thing struct {
	kind *kind
	name string // unique in all worlds
	ns   string
	held bool
	// orphans is true if it has the finalizer that lets its dependents stay.
	orphans bool
	refs    []reference
}

// reference names an owner by its number, or nobody (-1). It may be wrong in one respect.
type reference struct {
	owner      int
	wrong      string
	apiVersion string
	kind, name string
	block      *bool
}

type deletion struct {
	object int
	policy metav1.DeletionPropagation
}

// wrongs are what can be wrong with a reference; "" several times, since most are right.
var wrongs = []string{
	"", "", "", "", "", "", "", "", "namespace", "name", "kind", "unserved version", "unknown kind", "unknown group", "nobody", "scope",
}

func (w *world) namespaces() []string {
	return []string{fmt.Sprintf("world-%d", w.number), fmt.Sprintf("world-%d-elsewhere", w.number)}
}

// newWorld makes one up. References go to earlier objects only: no rings.
func newWorld(number int, random *rand.Rand) *world {
	w := &world{number: number}
	for i := range 6 + random.IntN(5) {
		o := &thing{
			kind: kinds[random.IntN(len(kinds))],
			name: fmt.Sprintf("world-%d-object-%d", number, i),
			held: random.IntN(12) == 0,
		}
		if o.kind.namespaced {
			o.ns = w.namespaces()[max(0, random.IntN(5)-3)]
		}
		for range random.IntN(4) {
			if r, ok := w.reference(o, random); ok {
				o.refs = append(o.refs, r)
			}
		}
		w.objects = append(w.objects, o)
	}
	for range 1 + random.IntN(4) {
		w.deletes = append(w.deletes, deletion{
			object: random.IntN(len(w.objects)),
			policy: []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
			}[random.IntN(4)],
		})
	}
	return w
}

func (w *world) reference(o *thing, random *rand.Rand) (r reference, ok bool) {
	r.wrong = wrongs[random.IntN(len(wrongs))]
	var fit []int // of the right scope and namespace
	var unfit []int
	for i, c := range w.objects {
		if c.ns == "" || c.ns == o.ns {
			fit = append(fit, i)
		} else {
			unfit = append(unfit, i)
		}
	}
	if r.wrong == "namespace" || r.wrong == "scope" {
		fit = unfit // "scope" is what it is for an object without a namespace
	}
	if len(fit) == 0 && r.wrong != "nobody" {
		return r, false
	}
	of := configMaps
	r.owner, r.name = -1, "nobody"
	if r.wrong != "nobody" {
		r.owner = fit[random.IntN(len(fit))]
		if slices.ContainsFunc(o.refs, func(had reference) bool { return had.owner == r.owner }) {
			return r, false
		}
		of, r.name = w.objects[r.owner].kind, w.objects[r.owner].name
	}
	r.apiVersion, r.kind = of.gvr.GroupVersion().String(), of.kind
	switch r.wrong {
	case "name":
		r.name = "another"
	case "kind":
		other := of
		for other == of {
			other = kinds[random.IntN(len(kinds))]
		}
		r.apiVersion, r.kind = other.gvr.GroupVersion().String(), other.kind
	case "unserved version":
		r.apiVersion = schema.GroupVersion{Group: of.gvr.Group, Version: "v9"}.String()
	case "unknown kind":
		r.kind = "Nothing"
	case "unknown group":
		r.apiVersion = "example.invalid/v1"
	}
	if b := random.IntN(4); b > 0 {
		block := b > 1
		r.block = &block
	}
	return r, true
}

// object returns a thing as it is sent to a server, on which the owners have these UIDs.
func (w *world) object(i int, uids []types.UID) *unstructured.Unstructured {
	th := w.objects[i]
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(th.kind.gvr.GroupVersion().String())
	o.SetKind(th.kind.kind)
	o.SetName(th.name)
	if th.held {
		o.SetFinalizers([]string{hold})
	}
	if th.orphans {
		o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerOrphanDependents))
	}
	var refs []metav1.OwnerReference
	for n, r := range th.refs {
		uid := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%04d%04d%04d", w.number, i, n))
		if r.owner >= 0 {
			uid = uids[r.owner]
		}
		refs = append(refs, metav1.OwnerReference{APIVersion: r.apiVersion, Kind: r.kind, Name: r.name, UID: uid, BlockOwnerDeletion: r.block})
	}
	o.SetOwnerReferences(refs)
	return o
}

func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %d:\n", w.number)
	for i, o := range w.objects {
		fmt.Fprintf(&b, "  %d %s %s/%s held=%v orphans=%v\n", i, o.kind.kind, o.ns, o.name, o.held, o.orphans)
		for _, r := range o.refs {
			block := "unset"
			if r.block != nil {
				block = fmt.Sprint(*r.block)
			}
			fmt.Fprintf(&b, "      of %d as %s %s %s, block %s, wrong: %s\n", r.owner, r.apiVersion, r.kind, r.name, block, r.wrong)
		}
	}
	for _, d := range w.deletes {
		fmt.Fprintf(&b, "  delete %d %s\n", d.object, d.policy)
	}
	return b.String()
}
