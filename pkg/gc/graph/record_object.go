package graph

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Record sits in an informer's store, which asks for a metav1.Object. What the
// Record keeps is answered; the rest is empty; nothing can be set, because a
// Record is shared and immutable.
var _ metav1.Object = (*Record)(nil)

func (r *Record) GetNamespace() string       { return r.Namespace }
func (r *Record) GetName() string            { return r.Name }
func (r *Record) GetUID() types.UID          { return r.UID }
func (r *Record) GetResourceVersion() string { return r.ResourceVersion }

func (r *Record) GetGenerateName() string                       { return "" }
func (r *Record) GetGeneration() int64                          { return 0 }
func (r *Record) GetSelfLink() string                           { return "" }
func (r *Record) GetCreationTimestamp() metav1.Time             { return metav1.Time{} }
func (r *Record) GetDeletionTimestamp() *metav1.Time            { return nil }
func (r *Record) GetDeletionGracePeriodSeconds() *int64         { return nil }
func (r *Record) GetLabels() map[string]string                  { return nil }
func (r *Record) GetAnnotations() map[string]string             { return nil }
func (r *Record) GetFinalizers() []string                       { return nil }
func (r *Record) GetOwnerReferences() []metav1.OwnerReference   { return nil }
func (r *Record) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

func (r *Record) SetNamespace(string)                          {}
func (r *Record) SetName(string)                               {}
func (r *Record) SetGenerateName(string)                       {}
func (r *Record) SetUID(types.UID)                             {}
func (r *Record) SetResourceVersion(string)                    {}
func (r *Record) SetGeneration(int64)                          {}
func (r *Record) SetSelfLink(string)                           {}
func (r *Record) SetCreationTimestamp(metav1.Time)             {}
func (r *Record) SetDeletionTimestamp(*metav1.Time)            {}
func (r *Record) SetDeletionGracePeriodSeconds(*int64)         {}
func (r *Record) SetLabels(map[string]string)                  {}
func (r *Record) SetAnnotations(map[string]string)             {}
func (r *Record) SetFinalizers([]string)                       {}
func (r *Record) SetOwnerReferences([]metav1.OwnerReference)   {}
func (r *Record) SetManagedFields([]metav1.ManagedFieldsEntry) {}
