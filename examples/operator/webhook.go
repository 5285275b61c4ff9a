package main

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// protected is the annotation of sites that nobody may delete.
const protected = "web.example.com/protected"

// siteValidator is the operator's webhook.
type siteValidator struct{}

func (v siteValidator) setUp(m ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(m, &Site{}).WithValidator(v).Complete()
}

// ValidateCreate refuses sites without pages.
func (siteValidator) ValidateCreate(_ context.Context, site *Site) (admission.Warnings, error) {
	if len(site.Spec.Pages) == 0 {
		return nil, errors.New("a site needs a page")
	}
	return nil, nil
}

// ValidateUpdate refuses what ValidateCreate refuses, but never to take a finalizer off.
func (v siteValidator) ValidateUpdate(ctx context.Context, _, site *Site) (admission.Warnings, error) {
	if site.DeletionTimestamp != nil {
		return nil, nil
	}
	return v.ValidateCreate(ctx, site)
}

// ValidateDelete refuses to delete protected sites, also to the garbage collector.
func (siteValidator) ValidateDelete(_ context.Context, site *Site) (admission.Warnings, error) {
	if site.Annotations[protected] == "true" {
		return nil, fmt.Errorf("site %s is protected", site.Name)
	}
	return nil, nil
}
