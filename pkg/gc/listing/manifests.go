package listing

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

// Manifests builds the graph of a cluster that contains only the given objects, as if they were
// applied. An object gets a generated UID, which begins with lint.NewUID, unless it exists in the
// cluster with the UID in the manifest. Owners are read live. namespace is the default for
// namespaced objects. The returned keys are in the order of the objects. Errors are those of List.
func Manifests(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured, namespace string) (*Result, []graph.Key, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, served, err := begin(ctx, config, Options{}, cancel)
	if err != nil {
		return nil, nil, err
	}
	catalog := withDefinitions(served, objects)
	g := l.result.Graph
	g.SetCatalog(catalog, l.since)
	for _, r := range catalog.Resources() {
		g.AddResource(r.GroupResource(), r.GroupKind(), l.since)
		g.Listed(r.GroupResource(), l.since)
	}
	keep, err := l.existing(ctx, served, objects, namespace)
	if err != nil {
		return nil, nil, err
	}
	keys := make([]graph.Key, len(objects))
	for i, o := range objects {
		gvk := o.GroupVersionKind()
		gr := schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}
		rec := graph.RecordOf(o)
		if r := catalog.Serving(o.GetAPIVersion(), gvk.Kind); r != nil {
			gr = r.GroupResource()
			rec.Namespace = inNamespace(r, rec.Namespace, namespace)
		} else {
			// The kind is not served, but its references can be judged. Assume that it is
			// namespaced, as most kinds are.
			g.AddResource(gr, gvk.GroupKind(), l.since)
			g.Listed(gr, l.since)
			rec.Namespace = cmp.Or(rec.Namespace, namespace)
		}
		// An applied object is not being deleted, whatever the manifest says.
		rec.Deleting, rec.Foreground, rec.Orphan, rec.DeletedAt = false, false, false, 0
		if !keep[rec.UID] {
			rec.UID = types.UID(fmt.Sprint(lint.NewUID, i))
		}
		keys[i] = graph.Key{Resource: gr, UID: rec.UID}
		g.Upsert(gr, rec, l.since)
	}
	if err := l.verify(ctx); err != nil {
		return nil, nil, err
	}
	l.absentOfNewKinds(served)
	return l.result, keys, nil
}

// existing returns the UIDs of those objects that own other objects and exist in the cluster
// with the same UID.
func (l *lister) existing(ctx context.Context, served *graph.Catalog, objects []*unstructured.Unstructured, namespace string) (map[types.UID]bool, error) {
	named := map[types.UID]bool{}
	for _, o := range objects {
		for _, r := range o.GetOwnerReferences() {
			named[r.UID] = true
		}
	}
	var owners []*unstructured.Unstructured
	for _, o := range objects {
		if named[o.GetUID()] && possible(o.GetName()) && served.Serving(o.GetAPIVersion(), o.GetKind()) != nil {
			owners = append(owners, o)
		}
	}
	keep := map[types.UID]bool{}
	actor := l.reader()
	each(ctx, owners, func(ctx context.Context, o *unstructured.Unstructured) {
		r := served.Serving(o.GetAPIVersion(), o.GetKind())
		_, is, err := actor.Read(ctx, r.Preferred(), inNamespace(r, o.GetNamespace(), namespace), o.GetName(), o.GetUID())
		switch {
		case ctx.Err() != nil:
		case err != nil && ofAll(err):
			l.stop(err)
		case err != nil:
			l.gap(r.GroupResource(), err)
		case is == act.Present:
			l.mu.Lock()
			keep[o.GetUID()] = true
			l.mu.Unlock()
		}
	})
	return keep, context.Cause(ctx)
}

// absentOfNewKinds records that owners do not exist if the manifests define their kind and the
// server does not serve it yet.
func (l *lister) absentOfNewKinds(served *graph.Catalog) {
	for _, n := range l.result.Graph.Objects() {
		v, _ := l.result.Graph.View(n.Key)
		for i := range v.Owners {
			if o := &v.Owners[i]; o.Observed == nil && o.Resource != nil && served.Resource(o.Resource.GroupResource()) == nil {
				l.result.Graph.Learn(o.Reference.UID, o.At, graph.Fact{State: graph.Absent})
			}
		}
	}
}

func inNamespace(r *graph.Resource, given, byDefault string) string {
	if !r.Namespaced {
		return ""
	}
	return cmp.Or(given, byDefault)
}

// withDefinitions adds the kinds that the manifests define to the served ones.
func withDefinitions(served *graph.Catalog, objects []*unstructured.Unstructured) *graph.Catalog {
	all := served.Resources()
	for _, o := range objects {
		if gvk := o.GroupVersionKind(); gvk.Group != "apiextensions.k8s.io" || gvk.Kind != "CustomResourceDefinition" {
			continue
		}
		text := func(path ...string) string {
			s, _, _ := unstructured.NestedString(o.Object, path...)
			return s
		}
		r := &graph.Resource{
			Group: text("spec", "group"), Name: text("spec", "names", "plural"), Kind: text("spec", "names", "kind"),
			Namespaced: text("spec", "scope") == "Namespaced", Monitored: true,
		}
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			m, _ := v.(map[string]any)
			if name, _ := m["name"].(string); name != "" && m["served"] == true {
				r.Versions = append(r.Versions, name)
			}
		}
		if r.Name != "" && r.Kind != "" && len(r.Versions) > 0 && served.Resource(r.GroupResource()) == nil {
			all = append(all[:len(all):len(all)], r)
		}
	}
	return graph.NewCatalog(all)
}
