package fakeapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// single answers a call about one object.
func (s *Server) single(w http.ResponseWriter, r *Resource, c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = true
	defer func() { s.serving = false }()
	m := s.objects[objectKey{r.GroupResource(), c.Namespace, c.Name}]
	if m == nil {
		fail(w, apierrors.NewNotFound(r.GroupResource(), c.Name))
		return
	}
	var err error
	switch c.Verb {
	case "delete":
		var o *metav1.DeleteOptions
		if o, err = DeleteOptions(c.body); err == nil {
			err = s.delete(r, m, *o)
		}
		if err == nil {
			answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
			return
		}
	case "patch":
		m, err = s.patch(r, m, c.body)
	}
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		fail(w, status)
	case err != nil:
		fail(w, apierrors.NewBadRequest(err.Error()))
	case c.whole:
		var spec map[string]any
		status := s.statuses[objectKey{r.GroupResource(), c.Namespace, c.Name}]
		if r.Name == definitions {
			spec, status = s.definition(m)
		}
		answer(w, http.StatusOK, whole(r, c.Version, m, spec, status))
	default:
		answer(w, http.StatusOK, partial(m))
	}
}

// delete follows the API server's generic registry. s.mu is held.
func (s *Server) delete(r *Resource, m *metav1.ObjectMeta, o metav1.DeleteOptions) error {
	if p := o.Preconditions; p != nil {
		if err := precondition(r, m, deref(p.UID), deref(p.ResourceVersion)); err != nil {
			return err
		}
	}
	orphan, foreground := policy(r, m, o)
	after := m.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		after.Finalizers = append(after.Finalizers, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		after.Finalizers = append(after.Finalizers, metav1.FinalizerDeleteDependents)
	}
	if len(after.Finalizers) == 0 {
		s.remove(r, m)
		return nil
	}
	if after.DeletionTimestamp == nil {
		now := metav1.Now()
		after.DeletionTimestamp = &now
		after.Generation++
	} else if slices.Equal(after.Finalizers, m.Finalizers) {
		return nil // nothing to write
	}
	s.put(r, after, modified)
	return nil
}

// policy returns the propagation policy of a delete: that of the options, else that of the
// finalizer which the object carries, else the resource's default.
func policy(r *Resource, m *metav1.ObjectMeta, o metav1.DeleteOptions) (orphan, foreground bool) {
	//lint:ignore SA1019 deprecated, and still honoured by the API server
	if deprecated := o.OrphanDependents; deprecated != nil {
		return *deprecated, false
	}
	if o.PropagationPolicy != nil {
		return *o.PropagationPolicy == metav1.DeletePropagationOrphan, *o.PropagationPolicy == metav1.DeletePropagationForeground
	}
	if slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents) {
		return true, false
	}
	if slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents) {
		return false, true
	}
	return r.OrphanByDefault, false
}

// patch is a merge patch of the two lists of metadata that the collector writes.
// s.mu is held.
func (s *Server) patch(r *Resource, m *metav1.ObjectMeta, body []byte) (*metav1.ObjectMeta, error) {
	var p struct {
		Metadata struct {
			UID             types.UID                `json:"uid"`
			ResourceVersion string                   `json:"resourceVersion"`
			Finalizers      *[]string                `json:"finalizers"`
			OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	if err := precondition(r, m, p.Metadata.UID, p.Metadata.ResourceVersion); err != nil {
		return nil, err
	}
	after := m.DeepCopy()
	if f := p.Metadata.Finalizers; f != nil {
		after.Finalizers = *f
	}
	if o := p.Metadata.OwnerReferences; o != nil {
		after.OwnerReferences = *o
	}
	s.update(r, after)
	return after, nil
}

// update commits a changed object, or its end if it was only held by finalizers.
// s.mu is held.
func (s *Server) update(r *Resource, m *metav1.ObjectMeta) {
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		s.remove(r, m)
		return
	}
	s.put(r, m, modified)
}

func precondition(r *Resource, m *metav1.ObjectMeta, uid types.UID, resourceVersion string) error {
	if uid != "" && uid != m.UID || resourceVersion != "" && resourceVersion != m.ResourceVersion {
		return apierrors.NewConflict(r.GroupResource(), m.Name, errors.New("the object is another or has changed"))
	}
	return nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// takeEvent takes an Event; nothing else can be created over HTTP.
func (s *Server) takeEvent(w http.ResponseWriter, c *Call) {
	var e corev1.Event
	if err := json.Unmarshal(c.body, &e); err != nil || c.Resource != "events" {
		fail(w, apierrors.NewBadRequest("not an event"))
		return
	}
	s.mu.Lock()
	s.warnings = append(s.warnings, e)
	s.mu.Unlock()
	answer(w, http.StatusCreated, e)
}

// Warnings returns the Events that the collector has written.
func (s *Server) Warnings() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.warnings)
}
