package reaptest

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var errOwnerMissing = errors.New("its owner is missing too")

// restore gives an object that has been written its former content back, if that has changed.
func (r *resetting) restore(ctx context.Context, id key, was *unstructured.Unstructured) error {
	want, ok := r.kept.as(was, r.now)
	if !ok {
		return errOwnerMissing
	}
	live, err := r.of(id, r.kept.served).Get(ctx, id.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.writes.Add(1) // somebody's: look again
		return nil
	}
	if err != nil {
		return err
	}
	if same(live, want) {
		was.SetUID(live.GetUID())
		was.SetResourceVersion(live.GetResourceVersion())
		return nil
	}
	want.SetUID(live.GetUID())
	want.SetResourceVersion(live.GetResourceVersion())
	r.writes.Add(1)
	_, err = r.of(id, r.kept.served).Update(ctx, want, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the next pass sees it
		return nil
	case apierrors.IsInvalid(err): // a field that cannot be changed back: the next pass creates it
		return r.delete(ctx, id, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: live.GetUID(), Finalizers: live.GetFinalizers()}})
	}
	return err
}

// create creates an object that has been deleted.
func (r *resetting) create(ctx context.Context, id key, was *unstructured.Unstructured) error {
	o, ok := r.kept.as(was, r.now)
	if !ok {
		return errOwnerMissing
	}
	o.SetUID("")
	o.SetResourceVersion("")
	r.writes.Add(1)
	_, err := r.of(id, r.kept.served).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // a controller was first
		return nil
	}
	return err
}
