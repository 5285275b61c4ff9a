package fakeapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// definitions is the resource whose objects say which others are served.
const definitions = "customresourcedefinitions"

// apiServices is the resource whose objects say which API versions another server
// answers for.
const apiServices = "apiservices"

// Define makes the server serve a resource, with the definition that says so, or with
// an APIService for each version if the resource is aggregated. One that is defined
// already is changed.
func (s *Server) Define(r Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources = slices.DeleteFunc(slices.Clone(s.resources), func(old *Resource) bool {
		return old.GroupResource() == r.GroupResource()
	})
	s.resources = append(s.resources, &r)
	if !r.Aggregated {
		s.touch(s.byName(definitions), r.Name+"."+r.Group)
		return
	}
	if s.byName(apiServices) == nil {
		s.resources = append(s.resources, &Resource{Group: "apiregistration.k8s.io", Name: apiServices, Kind: "APIService", Versions: []string{"v1"}})
	}
	for _, v := range r.Versions {
		s.touch(s.byName(apiServices), v+"."+r.Group)
	}
}

// touch creates a cluster-scoped object, or changes the existing one. s.mu is held.
func (s *Server) touch(r *Resource, name string) {
	if m := s.objects[objectKey{r.GroupResource(), "", name}]; m != nil {
		s.put(r, m.DeepCopy(), modified)
	} else {
		s.create(r, &metav1.ObjectMeta{Name: name})
	}
}

// SetServed serves a resource that is defined, or none of its versions. Its definition
// and its objects stay.
func (s *Server) SetServed(resource string, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := *s.byName(resource)
	r.unserved = !served
	for i := range s.resources {
		if s.resources[i].GroupResource() == r.GroupResource() {
			s.resources = slices.Clone(s.resources)
			s.resources[i] = &r
		}
	}
	s.touch(s.byName(definitions), r.Name+"."+r.Group)
}

// StartOver restores a resource's objects to a revision, and numbers them from 1: the
// server behind an APIService has a store of its own, which was restored. Watches go on
// and do not show it.
func (s *Server) StartOver(resource string, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gr := s.byName(resource).GroupResource()
	s.history = slices.Clone(s.history)
	for k := range s.objects {
		if k.resource == gr {
			delete(s.objects, k)
		}
	}
	for _, e := range s.history {
		if k := (objectKey{gr, e.meta.Namespace, e.meta.Name}); e.resource.GroupResource() != gr || e.revision > revision {
			continue
		} else if s.objects[k] = e.meta; e.kind == deleted {
			delete(s.objects, k)
		}
	}
	s.history = slices.DeleteFunc(s.history, func(e event) bool { return e.resource.GroupResource() == gr })
	s.own[gr] = 0
	for k, m := range s.objects {
		if k.resource == gr {
			s.put(s.byName(resource), m.DeepCopy(), added)
		}
	}
}

// revisionOf returns the current revision of the store that a resource is in. s.mu is held.
func (s *Server) revisionOf(r *Resource) int64 {
	if own, has := s.own[r.GroupResource()]; has {
		return own
	}
	return s.revision
}

// servedNow returns the resources that are served, at those versions. s.mu is held.
func (s *Server) servedNow() (all []*Resource) {
	for _, r := range s.resources {
		if r.unserved {
			continue
		}
		if r.Aggregated {
			copied := *r
			copied.Versions = slices.DeleteFunc(slices.Clone(r.Versions), func(v string) bool {
				return s.objects[objectKey{s.byName(apiServices).GroupResource(), "", v + "." + r.Group}] == nil
			})
			if r = &copied; len(r.Versions) == 0 {
				continue // its objects stay where they are
			}
		}
		all = append(all, r)
	}
	return all
}

// definition is the part of a definition that the collector reads. s.mu is held.
func (s *Server) definition(m *metav1.ObjectMeta) (spec, status map[string]any) {
	for _, r := range s.resources {
		if r.Name+"."+r.Group != m.Name {
			continue
		}
		var versions []any
		for _, v := range r.Versions {
			versions = append(versions, map[string]any{"name": v, "served": !r.unserved})
		}
		return map[string]any{"versions": versions},
			map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	}
	return nil, nil // nobody has established it
}

// undefine ends a resource whose definition goes: its objects go first, whatever
// finalizers they have. s.mu is held.
func (s *Server) undefine(definition string) {
	for _, r := range s.resources {
		if r.Name+"."+r.Group != definition {
			continue
		}
		for k, m := range s.objects {
			if k.resource == r.GroupResource() {
				s.remove(r, m)
			}
		}
	}
	s.resources = slices.DeleteFunc(slices.Clone(s.resources), func(r *Resource) bool { return r.Name+"."+r.Group == definition })
}
