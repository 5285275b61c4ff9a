package graph

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JobTrackingFinalizer is on the pods of Jobs until their end has been counted.
const JobTrackingFinalizer = "batch.kubernetes.io/job-tracking"

// Protection is a finalizer that a controller of the control plane takes off by itself after
// the object has been deleted.
type Protection struct {
	Finalizer string
	Resource  schema.GroupResource
	// Controller is its name in --disable.
	Controller string
}

// protections are all of them. docs/controllers.md says who puts them on.
var protections = []Protection{
	{JobTrackingFinalizer, schema.GroupResource{Resource: "pods"}, "job"},
	{"kubernetes.io/pvc-protection", schema.GroupResource{Resource: "persistentvolumeclaims"}, "pvc-protection"},
	{"kubernetes.io/pv-protection", schema.GroupResource{Resource: "persistentvolumes"}, "pv-protection"},
	{"kubernetes.io/vac-protection", schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}, "vac-protection"},
	{"resource.kubernetes.io/delete-protection", schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, "resourceclaim"},
}

// Protection returns the protection that alone holds an object of a resource; false if no
// finalizer but the collector's does, or another one.
func (r *Record) Protection(of schema.GroupResource) (Protection, bool) {
	names := r.Finalizers.Names()
	if !r.OtherFinalizers || len(names) != 1 {
		return Protection{}, false
	}
	i := slices.IndexFunc(protections, func(p Protection) bool { return p.Finalizer == names[0] && p.Resource == of })
	if i < 0 {
		return Protection{}, false
	}
	return protections[i], true
}

// protectionOf keeps the name of a protection that is the only finalizer but the collector's.
func protectionOf(names []string) (kept Finalizers) {
	for _, f := range names {
		switch {
		case f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents:
		case kept != (Finalizers{}) || !slices.ContainsFunc(protections, func(p Protection) bool { return p.Finalizer == f }):
			return Finalizers{}
		default:
			kept = FinalizersOf([]string{f})
		}
	}
	return kept
}
