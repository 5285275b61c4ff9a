package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// siteReconciler makes a site's pages and the Deployment that serves them. It deletes a page only when the site lives on
// without it: the garbage collector deletes all of them with their site.
type siteReconciler struct{ client.Client }

func (r *siteReconciler) setUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&Site{}).Owns(&Page{}).Owns(&appsv1.Deployment{}).Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *siteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	for name, text := range site.Spec.Pages {
		page := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name + "-" + name}}
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
			page.Spec.Text = text
			return controllerutil.SetControllerReference(&site, page, r.Scheme())
		})
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("making page %s: %w", page.Name, err)
		}
	}
	if err := r.dropPages(ctx, &site); err != nil {
		return ctrl.Result{}, err
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, web, func() error {
		labels := map[string]string{"site": site.Name}
		web.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		web.Spec.Template.Labels = labels
		if len(web.Spec.Template.Spec.Containers) == 0 {
			web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web.example.com/server:1"}}
		}
		return controllerutil.SetControllerReference(&site, web, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("making deployment %s: %w", web.Name, err)
	}
	return ctrl.Result{}, nil
}

// dropPages deletes the pages that the site has no longer.
func (r *siteReconciler) dropPages(ctx context.Context, site *Site) error {
	var pages PageList
	if err := r.List(ctx, &pages, client.InNamespace(site.Namespace)); err != nil {
		return fmt.Errorf("listing pages: %w", err)
	}
	wanted := map[string]bool{}
	for name := range site.Spec.Pages {
		wanted[site.Name+"-"+name] = true
	}
	for i := range pages.Items {
		page := &pages.Items[i]
		if wanted[page.Name] || !metav1.IsControlledBy(page, site) {
			continue
		}
		if err := r.Delete(ctx, page); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting page %s: %w", page.Name, err)
		}
	}
	return nil
}
