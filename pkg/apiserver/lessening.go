package apiserver

import (
	"context"
	"net/http"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// mayGrow is how many bytes a write may add to an object on a full disk: taking a finalizer off adds an entry to the managed fields, and
	// a deletion's progress is written into a status.
	mayGrow = 8 << 10
	// leaseSize is how large a lease may be that is renewed on a full disk.
	leaseSize = 4 << 10
	// leftToGrow and leftToChange are how much of the room for deletions has to be left for a write that adds to an object, and for any
	// other: the rest is for deletions alone, whatever one client writes in a loop.
	leftToGrow, leftToChange = 0.5, 0.25
)

// fullKey is the context key of a request's *fullDisk.
type fullKey struct{}

// fullDisk is what is known of a request that writes to a datastore whose disk is full.
type fullDisk struct {
	text        string // of the refusal
	subresource string
	inProcess   bool // the caller is a controller, or the collector
	left        func() float64
}

// withFullDisk marks a request that may only write what leads to less.
func withFullDisk(r *http.Request, info *request.RequestInfo, store Store, text string) *http.Request {
	_, inProcess := r.Context().Value(callerKey{}).(user.Info)
	return r.WithContext(context.WithValue(r.Context(), fullKey{}, &fullDisk{text, info.Subresource, inProcess, store.Left}))
}

func (f *fullDisk) refusal() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: reasonOf(http.StatusInsufficientStorage), Message: f.text,
	}}
}

// lessening is a store that takes, of the updates of a request that has found the disk full, those alone that lead to less.
type lessening struct {
	storage.Interface
	codec    runtime.Codec
	resource schema.GroupResource
}

func (s lessening) Create(ctx context.Context, key string, o, into runtime.Object, ttl uint64) error {
	if f, ok := ctx.Value(fullKey{}).(*fullDisk); ok {
		return f.refusal()
	}
	return s.Interface.Create(ctx, key, o, into, ttl)
}

func (s lessening) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool, p *storage.Preconditions,
	update storage.UpdateFunc, suggestion runtime.Object,
) error {
	f, full := ctx.Value(fullKey{}).(*fullDisk)
	if !full {
		return s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, p, update, suggestion)
	}
	lessens := func(current runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		before, err := s.weigh(current)
		if err != nil {
			return nil, nil, err
		}
		// The last finalizer's update ends with an error here, and the object is deleted instead.
		updated, ttl, err := update(current, m)
		if err != nil {
			return nil, nil, err
		}
		after, err := s.weigh(updated)
		if err != nil {
			return nil, nil, err
		}
		if !f.takes(s.resource, before, after) {
			return nil, nil, f.refusal()
		}
		return updated, ttl, nil
	}
	return s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, p, lessens, suggestion)
}

// weight is what matters of an object on a full disk.
type weight struct {
	stored      bool
	bytes       int
	terminating bool
	finalizers  []string
}

func (s lessening) weigh(o runtime.Object) (weight, error) {
	a, err := meta.Accessor(o)
	if err != nil {
		return weight{}, err
	}
	w := weight{stored: a.GetResourceVersion() != "", terminating: a.GetDeletionTimestamp() != nil, finalizers: slices.Clone(a.GetFinalizers())}
	bare := o.DeepCopyObject() // the datastore does not hold the version
	if a, err = meta.Accessor(bare); err != nil {
		return weight{}, err
	}
	a.SetResourceVersion("")
	encoded, err := runtime.Encode(s.codec, bare)
	w.bytes = len(encoded)
	return w, err
}

// takes reports whether an update leads to less: it takes a finalizer off, or makes the object smaller, or is part of a deletion that has
// begun. Leases are renewed, since a collector that does not lead deletes nothing.
func (f *fullDisk) takes(resource schema.GroupResource, before, after weight) bool {
	grown := after.bytes - before.bytes
	least := leftToChange
	switch {
	case !before.stored || grown > mayGrow:
		return false
	case resource == coordinationv1.Resource("leases"):
		if after.bytes > leaseSize {
			return false
		}
		if f.inProcess {
			return true
		}
	case fewer(before.finalizers, after.finalizers), grown < 0:
	case before.terminating, f.endsPods(resource):
		if grown > 0 {
			least = leftToGrow
		}
	default:
		return false
	}
	return f.left() >= least
}

// endsPods reports whether the job controller writes the status of a job: it counts a pod there before it takes the pod's finalizer off.
func (f *fullDisk) endsPods(resource schema.GroupResource) bool {
	return f.inProcess && resource == schema.GroupResource{Group: "batch", Resource: "jobs"} && f.subresource == "status"
}

// fewer reports whether an object has lost finalizers and got none.
func fewer(before, after []string) bool {
	return len(after) < len(before) && !slices.ContainsFunc(after, func(name string) bool { return !slices.Contains(before, name) })
}
