package fakeapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type objectKey struct {
	resource        schema.GroupResource
	namespace, name string
}

const (
	added    = watch.Added
	modified = watch.Modified
	deleted  = watch.Deleted
)

// event is one entry of the history.
type event struct {
	revision int64
	kind     watch.EventType
	resource *Resource
	meta     *metav1.ObjectMeta
	lost     bool // watches do not show it
	called   bool // made by an HTTP call, not by one of the methods for users
}

// put commits an object. s.mu is held.
func (s *Server) put(r *Resource, m *metav1.ObjectMeta, kind watch.EventType) {
	revision := s.revisionOf(r) + 1
	if _, own := s.own[r.GroupResource()]; own {
		s.own[r.GroupResource()] = revision
	} else {
		s.revision = revision
	}
	m.ResourceVersion = strconv.FormatInt(revision, 10)
	k := objectKey{r.GroupResource(), m.Namespace, m.Name}
	if kind == deleted {
		delete(s.objects, k)
		delete(s.statuses, k)
	} else {
		s.objects[k] = m
	}
	lost := s.lose != nil && s.lose(r, m)
	s.history = append(s.history, event{revision, kind, r, m, lost, s.serving})
	s.happened()
}

// create commits a new object with a UID that tests can predict: the name, and
// how many objects of the name there have been. s.mu is held.
func (s *Server) create(r *Resource, m *metav1.ObjectMeta) {
	s.named[m.Name]++
	m.UID = types.UID(fmt.Sprintf("%s-%d", m.Name, s.named[m.Name]))
	m.Generation = 1
	s.put(r, m, added)
}

// remove takes an object out of the store. s.mu is held.
func (s *Server) remove(r *Resource, m *metav1.ObjectMeta) {
	if r.Name == definitions {
		s.undefine(m.Name)
	}
	s.put(r, m.DeepCopy(), deleted)
}

// Object is an object with its resource.
type Object struct {
	Resource *Resource
	*metav1.ObjectMeta
}

// Objects returns all objects, in order. They must not be changed.
func (s *Server) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Object
	for _, r := range s.resources {
		for _, m := range s.of(r, "") {
			all = append(all, Object{r, m})
		}
	}
	return all
}

// of returns a resource's objects, of one namespace or of all. s.mu is held.
func (s *Server) of(r *Resource, namespace string) []*metav1.ObjectMeta {
	var all []*metav1.ObjectMeta
	for k, m := range s.objects {
		if k.resource == r.GroupResource() && (namespace == "" || k.namespace == namespace) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *metav1.ObjectMeta) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Gone returns the objects that have gone since a revision, in order.
func (s *Server) Gone(since int64) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Object
	for _, e := range s.history {
		if e.kind == deleted && e.revision > since {
			all = append(all, Object{e.resource, e.meta})
		}
	}
	return all
}

// Change is one entry of the history: an object's new state, or its end.
type Change struct {
	Object
	Ended bool
	// ByCollector is true if a call made it.
	ByCollector bool
}

// Changes returns the history since the n-th entry, in order. The objects must not be changed.
func (s *Server) Changes(n int) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Change
	for _, e := range s.history[n:] {
		all = append(all, Change{Object{e.resource, e.meta}, e.kind == deleted, e.called})
	}
	return all
}

// Revision returns the current revision.
func (s *Server) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Restore returns the store to a revision, as restoring a backup does. Definitions stay as
// they are. Watches go on, and show nothing until the store has passed the revision that
// they have reached.
func (s *Server) Restore(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
	s.history = slices.DeleteFunc(slices.Clone(s.history), func(e event) bool { return e.revision > revision })
	clear(s.objects)
	for _, e := range s.history {
		k := objectKey{e.resource.GroupResource(), e.meta.Namespace, e.meta.Name}
		if s.objects[k] = e.meta; e.kind == deleted {
			delete(s.objects, k)
		}
	}
	s.happened()
}
