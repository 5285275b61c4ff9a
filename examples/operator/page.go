package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// published is the finalizer of a page that the world can see.
const published = "web.example.com/published"

// pageReconciler makes the ConfigMap with a page's text, and unpublishes a page before it goes.
type pageReconciler struct {
	client.Client
	// Unpublish takes a page from the web. The page stays as long as it fails.
	Unpublish func(ctx context.Context, page string) error
}

func (r *pageReconciler) setUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&Page{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *pageReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var page Page
	if err := r.Get(ctx, request.NamespacedName, &page); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !page.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.letGo(ctx, &page)
	}
	if controllerutil.AddFinalizer(&page, published) {
		if err := r.Update(ctx, &page); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to page %s: %w", page.Name, err)
		}
	}
	text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, text, func() error {
		text.Data = map[string]string{"index.html": page.Spec.Text}
		return controllerutil.SetControllerReference(&page, text, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("making the text of page %s: %w", page.Name, err)
	}
	return ctrl.Result{}, nil
}

func (r *pageReconciler) letGo(ctx context.Context, page *Page) error {
	if !controllerutil.ContainsFinalizer(page, published) {
		return nil
	}
	if err := r.Unpublish(ctx, page.Name); err != nil {
		return fmt.Errorf("unpublishing page %s: %w", page.Name, err)
	}
	controllerutil.RemoveFinalizer(page, published)
	return client.IgnoreNotFound(r.Update(ctx, page))
}
