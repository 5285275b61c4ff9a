package graph

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is what discovery says of one served resource. It is immutable.
type Resource struct {
	Group string
	// Name is the plural name in URLs, for example "replicasets".
	Name string
	Kind string
	// Versions holds every served version, the preferred one first.
	Versions   []string
	Namespaced bool
	// Monitored is true if the resource can be listed, watched and deleted, and
	// is not ignored: its objects become nodes.
	Monitored bool
	// Aggregated is true if another server answers for the group. Such a server
	// may ignore preconditions on a delete.
	Aggregated bool
}

// GroupResource returns the resource's name.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}
}

// GroupKind returns the kind of the resource's objects.
func (r *Resource) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// Preferred returns the resource at its preferred version.
func (r *Resource) Preferred() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Versions[0], Resource: r.Name}
}

// Catalog maps the kinds that references name to the resources that serve them.
// It is immutable; a change of discovery makes a new one. The zero value knows no
// kind at all.
type Catalog struct {
	resources []*Resource
	byKind    map[schema.GroupKind]*Resource
	byName    map[schema.GroupResource]*Resource
	byType    map[typeOf]*Resource
}

// typeOf is how a reference names a kind.
type typeOf struct{ apiVersion, kind string }

// NewCatalog indexes resources. Where one kind is served by several resources,
// the first in the list answers for it.
func NewCatalog(resources []*Resource) *Catalog {
	c := &Catalog{
		resources: resources,
		byKind:    make(map[schema.GroupKind]*Resource, len(resources)),
		byName:    make(map[schema.GroupResource]*Resource, len(resources)),
		byType:    make(map[typeOf]*Resource, len(resources)),
	}
	for _, r := range resources {
		if _, taken := c.byKind[r.GroupKind()]; !taken {
			c.byKind[r.GroupKind()] = r
			for _, v := range r.Versions {
				c.byType[typeOf{schema.GroupVersion{Group: r.Group, Version: v}.String(), r.Kind}] = r
			}
		}
		c.byName[r.GroupResource()] = r
	}
	return c
}

// Resources returns all resources. The caller must not change the slice.
func (c *Catalog) Resources() []*Resource { return c.resources }

// Resource returns the resource of that name, or nil.
func (c *Catalog) Resource(gr schema.GroupResource) *Resource { return c.byName[gr] }

// Serving returns the resource that serves a kind in a version, or nil.
func (c *Catalog) Serving(apiVersion, kind string) *Resource {
	r, _, _ := c.resolve(apiVersion, kind)
	return r
}

// Equal is true if both catalogs say the same.
func (c *Catalog) Equal(other *Catalog) bool {
	return slices.EqualFunc(c.resources, other.resources, func(a, b *Resource) bool {
		return a == b || a.Group == b.Group && a.Name == b.Name && a.Kind == b.Kind &&
			a.Namespaced == b.Namespaced && a.Monitored == b.Monitored && a.Aggregated == b.Aggregated &&
			slices.Equal(a.Versions, b.Versions)
	})
}

// resolve returns the resource that serves a reference's apiVersion and kind, or
// nil when the server does not serve that version of it. kindKnown is true when
// it serves the kind in any version.
func (c *Catalog) resolve(apiVersion, kind string) (r *Resource, gk schema.GroupKind, kindKnown bool) {
	if r := c.byType[typeOf{apiVersion, kind}]; r != nil {
		return r, r.GroupKind(), true
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, schema.GroupKind{Group: apiVersion, Kind: kind}, false
	}
	gk = gv.WithKind(kind).GroupKind()
	r, kindKnown = c.byKind[gk]
	if kindKnown && !slices.Contains(r.Versions, gv.Version) {
		return nil, gk, true
	}
	return r, gk, kindKnown
}
