package fakeapi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Create makes an object, as a user would. Its UID is the name and how many
// objects of the name there have been: "web-1".
func (s *Server) Create(resource string, m metav1.ObjectMeta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byName(resource)
	if r == nil {
		return fmt.Errorf("%s is not served", resource)
	}
	if s.objects[objectKey{r.GroupResource(), m.Namespace, m.Name}] != nil {
		return fmt.Errorf("%s %s exists", resource, m.Name)
	}
	s.create(r, m.DeepCopy())
	return nil
}

// Update changes an object, as a user would.
func (s *Server) Update(resource, namespace, name string, change func(*metav1.ObjectMeta)) error {
	return s.on(resource, namespace, name, func(r *Resource, m *metav1.ObjectMeta) error {
		after := m.DeepCopy()
		change(after)
		s.update(r, after)
		return nil
	})
}

// Ask changes an object's spec, as a user would: its generation grows.
func (s *Server) Ask(resource, namespace, name string) error {
	return s.Update(resource, namespace, name, func(m *metav1.ObjectMeta) { m.Generation++ })
}

// Observe sets status.observedGeneration of an object to its generation, as its controller
// would.
func (s *Server) Observe(resource, namespace, name string) error {
	return s.on(resource, namespace, name, func(r *Resource, m *metav1.ObjectMeta) error {
		s.statuses[objectKey{r.GroupResource(), namespace, name}] = map[string]any{"observedGeneration": m.Generation}
		s.put(r, m.DeepCopy(), modified)
		return nil
	})
}

// Delete deletes an object, as a user would.
func (s *Server) Delete(resource, namespace, name string, o metav1.DeleteOptions) error {
	return s.on(resource, namespace, name, func(r *Resource, m *metav1.ObjectMeta) error {
		return s.delete(r, m, o)
	})
}

func (s *Server) on(resource, namespace, name string, do func(*Resource, *metav1.ObjectMeta) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byName(resource)
	if r == nil {
		return fmt.Errorf("%s is not served", resource)
	}
	m := s.objects[objectKey{r.GroupResource(), namespace, name}]
	if m == nil {
		return fmt.Errorf("%s %s does not exist", resource, name)
	}
	return do(r, m)
}
