package reaptest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// cleanup is the finalizer by which the server removes a definition's objects from its store.
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

// delete deletes an object and takes its finalizers off. A namespace is deleted in one pass, and ended in another, when
// nothing is left in it.
func (r *resetting) delete(ctx context.Context, id key, o *metav1.PartialObjectMetadata) error {
	err := r.deleteMarked(ctx, id, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another object: the next pass sees it
		return nil
	}
	return err
}

func (r *resetting) deleteMarked(ctx context.Context, id key, o *metav1.PartialObjectMetadata) error {
	marked := o.DeletionTimestamp != nil
	if !marked {
		// First of all: no finalizer can be added to what is being deleted.
		r.writes.Add(1)
		err := r.of(id, r.now.served).Delete(ctx, id.name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground),
			Preconditions: &metav1.Preconditions{UID: &o.UID},
		})
		if err != nil {
			return err
		}
	}
	switch {
	case id.resource != namespaces:
		return r.free(ctx, id, o)
	case marked:
		return r.finalize(ctx, id, o)
	}
	return nil
}

// free takes the finalizers off.
func (r *resetting) free(ctx context.Context, id key, o *metav1.PartialObjectMetadata) error {
	stay := []string{}
	if id.resource == definitions && slices.Contains(o.Finalizers, cleanup) {
		// The server does it at once if no object is left; otherwise not within seconds.
		_, listed := r.now.served[schema.ParseGroupResource(id.name)]
		if o.DeletionTimestamp == nil || !listed {
			stay = append(stay, cleanup)
		}
	}
	if len(o.Finalizers) == len(stay) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.UID, "finalizers": stay}})
	if err != nil {
		return err
	}
	r.writes.Add(1)
	_, err = r.of(id, r.now.served).Patch(ctx, id.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		r.tellOf(id, o.Finalizers)
	}
	return err
}

// finalize ends a namespace in which nothing is left, also where its controller is disabled.
func (r *resetting) finalize(ctx context.Context, id key, o *metav1.PartialObjectMetadata) error {
	ended := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": id.name, "uid": string(o.UID)},
		"spec":     map[string]any{"finalizers": []any{}},
	}}
	r.writes.Add(1)
	_, err := r.of(id, r.now.served).Update(ctx, ended, metav1.UpdateOptions{}, "finalize")
	if err == nil {
		r.tellOf(id, o.Finalizers)
	}
	return err
}

// tellOf remembers the finalizers of others than Kubernetes that an object had.
func (r *resetting) tellOf(id key, finalizers []string) {
	others := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		domain, _, qualified := strings.Cut(f, "/")
		return !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
	})
	if len(others) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed[id] = strings.Join(others, ", ")
}

// stopConversion takes the webhook from a definition whose objects may be unreadable because of it.
func (r *resetting) stopConversion(ctx context.Context, id key, _ *metav1.PartialObjectMetadata) error {
	if id.resource != definitions {
		return nil
	}
	r.writes.Add(1)
	_, err := r.of(id, r.now.served).Patch(ctx, id.name, types.MergePatchType,
		[]byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
