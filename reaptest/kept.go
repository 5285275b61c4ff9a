package reaptest

import (
	"context"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kept is what a server held at the time to which [Server.Reset] goes back, in full.
type kept struct {
	objects map[key]*unstructured.Unstructured
	served  served
	// keys says which object had a UID then: references name their owners by it.
	keys map[types.UID]key
}

func (c *clients) keep(ctx context.Context) (*kept, error) {
	k := &kept{objects: map[key]*unstructured.Unstructured{}, keys: map[types.UID]key{}}
	var mu sync.Mutex // protects the maps
	var err error
	k.served, err = c.visit(func(r schema.GroupVersionResource) error {
		list, err := c.objects.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range list.Items {
			o := &list.Items[i]
			if o.GetDeletionTimestamp() != nil || r.Resource == "events" {
				continue // about to go by itself
			}
			id := key{r.GroupResource(), o.GetNamespace(), o.GetName()}
			k.objects[id], k.keys[o.GetUID()] = o, id
		}
		return nil
	})
	return k, err
}

// difference is how a server differs from what is kept.
type difference struct {
	extra   map[key]*metav1.PartialObjectMetadata // that were not there, or are being deleted
	missing map[key]*unstructured.Unstructured    // as they were
	changed map[key]*unstructured.Unstructured    // as they were; written since, which may have changed nothing that counts
}

func (d *difference) has(id key) bool {
	return d.extra[id] != nil || d.missing[id] != nil || d.changed[id] != nil
}

// allocator marks the IPAddresses that the API server makes for Services, sometimes a moment after its start, and deletes with them.
const allocator = "ipallocator.k8s.io"

// compare finds out which objects differ. Those that the server makes by itself count as kept, and so do the addresses of Services.
func (k *kept) compare(now state) *difference {
	d := &difference{map[key]*metav1.PartialObjectMetadata{}, map[key]*unstructured.Unstructured{}, map[key]*unstructured.Unstructured{}}
	for id, o := range now.objects {
		was := k.objects[id]
		switch {
		case o.DeletionTimestamp != nil, was == nil && !k.made(id) && o.Labels[networkingv1.LabelManagedBy] != allocator:
			d.extra[id] = o
		case was != nil && (o.UID != was.GetUID() || o.ResourceVersion != was.GetResourceVersion()):
			d.changed[id] = was
		}
	}
	for id, was := range k.objects {
		if now.objects[id] == nil {
			d.missing[id] = was
		}
	}
	return d
}

// made is whether the server makes the object by itself, perhaps only after the start.
func (k *kept) made(id key) bool {
	if id.apiServers() {
		return true
	}
	switch id.resource.String() + "/" + id.name { // which a controller makes in each namespace that is kept
	case "serviceaccounts/default", "configmaps/kube-root-ca.crt":
		in := key{schema.GroupResource{Resource: "namespaces"}, "", id.namespace}
		return k.objects[in] != nil || in.apiServers()
	}
	return false
}

// apiServers is whether the API server makes the object for itself. It does so once it is ready, so the first list may come
// before; and what Reset deleted it would make again only after ten seconds.
func (id key) apiServers() bool {
	switch id.resource.String() + " " + id.namespace + "/" + id.name {
	case "namespaces /default", "namespaces /kube-node-lease", "namespaces /kube-public", "namespaces /kube-system",
		"services default/kubernetes", "servicecidrs.networking.k8s.io /kubernetes",
		"configmaps kube-system/extension-apiserver-authentication",
		"configmaps kube-system/kube-apiserver-legacy-service-account-token-tracking":
		return true
	}
	return false
}

// same is whether two objects differ in nothing that a user would have changed.
func same(a, b *unstructured.Unstructured) bool {
	return apiequality.Semantic.DeepEqual(substance(a), substance(b))
}

// substance is what a user has said of an object, and not what the server and its controllers add.
func substance(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	if _, aggregated := o.Object["aggregationRule"]; aggregated {
		delete(o.Object, "rules") // a controller collects them
	}
	if o.GetKind() == "Lease" {
		delete(o.Object, "spec") // renewed all the time
	}
	return o.Object
}

// as returns the object as it was, for a server on which its owners may have other UIDs by now. It is not ok while one
// of them is missing.
func (k *kept) as(was *unstructured.Unstructured, now state) (o *unstructured.Unstructured, ok bool) {
	o = was.DeepCopy()
	refs := o.GetOwnerReferences()
	for i, ref := range refs {
		owner, known := k.keys[ref.UID]
		if !known {
			continue // did not exist then either
		}
		live := now.objects[owner]
		if live == nil {
			return nil, false
		}
		refs[i].UID = live.UID
	}
	if len(refs) > 0 {
		o.SetOwnerReferences(refs)
	}
	return o, true
}
