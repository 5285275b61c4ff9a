package graph

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Record is the part of an object that the collector needs. The informer store
// and the graph share one Record, so it is immutable once it has been handed to
// either of them.
type Record struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	References      []Reference
	// Deleting is true once the object has a deletionTimestamp.
	Deleting bool
	// Foreground and Orphan say which of the two garbage collection finalizers
	// the object carries. Of others it is only known that there are some, and the names that
	// Finalizers keeps for reports and plans: finalizers are edited from a live read only.
	Foreground bool
	Orphan     bool
	// OtherFinalizers is true if the object carries any finalizer but those two and
	// DefinitionFinalizer.
	OtherFinalizers bool
	// CreatedAt is the creationTimestamp in seconds since 1970, at most that of 2106: four bytes fit into the padding
	// after the flags.
	CreatedAt uint32
	// DeletedAt is the deletionTimestamp in seconds since 1970; 0 unless Deleting.
	DeletedAt int64
	// SyncTimeout is what SyncTimeoutAnnotation says: NoTimeout, a positive duration, or
	// 0 if it is not there or cannot be understood.
	SyncTimeout time.Duration
	// Finalizers are the names of others' finalizers; none unless Deleting, or if there is one
	// and it is a protection.
	Finalizers Finalizers
}

// DefinitionFinalizer is the finalizer that the API server puts on a
// CustomResourceDefinition, and takes off by itself once the objects of that are gone.
const DefinitionFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// NoTimeout is a foreground deletion that is never given up on.
const NoTimeout time.Duration = -1

// never is the annotation's word for NoTimeout.
const never = "never"

// syncTimeout reads the annotation.
func syncTimeout(annotation string) time.Duration {
	if annotation == never {
		return NoTimeout
	}
	d, err := time.ParseDuration(annotation)
	switch {
	case err != nil:
		return 0
	case d <= 0:
		return NoTimeout
	}
	return d
}

// SyncTimeoutAnnotation on an object overrides how long its foreground deletion may
// wait: a duration, or "never"; "0" is the same as that.
const SyncTimeoutAnnotation = "gc.reap.dev/sync-timeout"

// WaitingForDependents is true while the object is in foreground deletion: it is
// marked and stays until its blocking dependents are gone.
func (r *Record) WaitingForDependents() bool { return r.Deleting && r.Foreground }

// follows is true if the object was created in a later second than the other's deletion, by the API server's clock.
func (r *Record) follows(deleted *Record) bool {
	return deleted.Deleting && int64(r.CreatedAt) > deleted.DeletedAt
}

// Elsewhere is true of a namespaced object in another namespace than an owner's; an owner in none has dependents everywhere.
// Orphaning leaves such an object alone.
func (r *Record) Elsewhere(owner string) bool {
	return owner != "" && r.Namespace != "" && r.Namespace != owner
}

// collecting is true if the object waits for the collector: for its dependents to
// be deleted or orphaned.
func (r *Record) collecting() bool { return r.Deleting && (r.Foreground || r.Orphan) }

// Reference is one ownerReference. It is comparable, and equal to another exactly
// when the API server would hold the two for the same entry.
type Reference struct {
	APIVersion         string
	Kind               string
	Name               string
	UID                types.UID
	Controller         Flag
	BlockOwnerDeletion Flag
}

// Flag is an optional boolean that can be compared.
type Flag uint8

// The values of a Flag.
const (
	Unset Flag = iota
	False
	True
)

func flagOf(b *bool) Flag {
	switch {
	case b == nil:
		return Unset
	case *b:
		return True
	default:
		return False
	}
}

// ReferenceOf returns the comparable form of an ownerReference.
func ReferenceOf(r metav1.OwnerReference) Reference {
	return Reference{
		APIVersion:         r.APIVersion,
		Kind:               r.Kind,
		Name:               r.Name,
		UID:                r.UID,
		Controller:         flagOf(r.Controller),
		BlockOwnerDeletion: flagOf(r.BlockOwnerDeletion),
	}
}

func (f Flag) pointer() *bool {
	if f == Unset {
		return nil
	}
	b := f == True
	return &b
}

// OwnerReference returns the ownerReference that r is the comparable form of.
func (r Reference) OwnerReference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         r.APIVersion,
		Kind:               r.Kind,
		Name:               r.Name,
		UID:                r.UID,
		Controller:         r.Controller.pointer(),
		BlockOwnerDeletion: r.BlockOwnerDeletion.pointer(),
	}
}

// RecordOf cuts an object's metadata down to its Record.
func RecordOf(o metav1.Object) *Record {
	r := &Record{
		Namespace:       o.GetNamespace(),
		Name:            o.GetName(),
		UID:             o.GetUID(),
		ResourceVersion: o.GetResourceVersion(),
		Deleting:        o.GetDeletionTimestamp() != nil,
	}
	if refs := o.GetOwnerReferences(); len(refs) > 0 {
		r.References = make([]Reference, len(refs))
		for i := range refs {
			r.References[i] = ReferenceOf(refs[i])
		}
	}
	for _, f := range o.GetFinalizers() {
		switch f {
		case metav1.FinalizerDeleteDependents:
			r.Foreground = true
		case metav1.FinalizerOrphanDependents:
			r.Orphan = true
		case DefinitionFinalizer:
		default:
			r.OtherFinalizers = true
		}
	}
	r.CreatedAt = uint32(min(max(o.GetCreationTimestamp().Unix(), 0), math.MaxUint32))
	if t := o.GetDeletionTimestamp(); t != nil {
		r.DeletedAt = t.Unix()
		r.Finalizers = FinalizersOf(o.GetFinalizers())
	} else if r.OtherFinalizers {
		r.Finalizers = protectionOf(o.GetFinalizers())
	}
	if own, set := o.GetAnnotations()[SyncTimeoutAnnotation]; set {
		r.SyncTimeout = syncTimeout(own)
	}
	return r
}
