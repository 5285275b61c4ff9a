package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A namespace has finalizers in its spec too. They hold its deletion like those in its metadata, and are changed through the
// subresource finalize alone.

// specFinalizers reads those of a namespace; there are none of another object.
func (c *connection) specFinalizers(ctx context.Context, o *object) ([]string, error) {
	if !o.named().IsNamespace() {
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, o.metadata.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && ns.UID != o.metadata.UID:
		return nil, nil
	case err != nil:
		return nil, c.failed(err)
	}
	return finalizerNames(ns.Spec.Finalizers), nil
}

func finalizerNames(all []corev1.FinalizerName) (names []string) {
	for _, f := range all {
		names = append(names, string(f))
	}
	return names
}

// takeOffSpec takes a finalizer off the spec of the namespace that was read.
func (c *connection) takeOffSpec(ctx context.Context, o *object, finalizer string) (left []string, err error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	if left, err = finalize(ctx, client.CoreV1().Namespaces(), o.metadata.Name, o.metadata.UID, finalizer); err != nil {
		return nil, c.failed(err)
	}
	return left, nil
}

// finalize takes a finalizer off the spec of a deleted namespace with a UID, and of no other, and returns the finalizers that are
// left in its metadata and its spec.
func finalize(ctx context.Context, namespaces corev1client.NamespaceInterface, name string, uid types.UID, finalizer string) (left []string, err error) {
	for range releaseRounds {
		ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && ns.UID != uid:
			return nil, nil // it has gone
		case err != nil:
			return nil, err
		case ns.DeletionTimestamp == nil:
			return nil, fmt.Errorf("namespaces/%s has not been deleted, so no finalizer holds it; nothing was changed", name)
		}
		kept := slices.DeleteFunc(slices.Clone(ns.Spec.Finalizers), func(f corev1.FinalizerName) bool { return string(f) == finalizer })
		left = append(slices.Clone(ns.Finalizers), finalizerNames(kept)...)
		if len(kept) == len(ns.Spec.Finalizers) {
			return left, nil // another client was faster
		}
		ns.Spec.Finalizers = kept
		switch _, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); {
		case err == nil:
			return left, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err):
			return nil, err
		}
	}
	return nil, fmt.Errorf("namespaces/%s changes faster than its finalizer can be taken off; try again", name)
}
