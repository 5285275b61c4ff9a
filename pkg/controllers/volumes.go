package controllers

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	"k8s.io/kubernetes/pkg/controller/volume/vacprotection"
)

// bindEvery is how often claims without a volume are tried again, as in kube-controller-manager.
const bindEvery = 15 * time.Second

// newEphemeralVolume makes the claims of pods' ephemeral volumes.
func newEphemeralVolume(ctx context.Context, p parts) (run, error) {
	c, err := ephemeral.NewController(ctx, p.client, p.caches.core().Pods(), p.caches.core().PersistentVolumeClaims())
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

// newPersistentVolumeBinder binds claims to volumes. It has no volume plugins: volumes are made, and their storage is
// deleted, by hand or by a CSI driver's own controllers.
func newPersistentVolumeBinder(ctx context.Context, p parts) (run, error) {
	c, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient:                p.client,
		SyncPeriod:                bindEvery,
		VolumeInformer:            p.caches.core().PersistentVolumes(),
		ClaimInformer:             p.caches.core().PersistentVolumeClaims(),
		ClassInformer:             p.caches.storage().StorageClasses(),
		PodInformer:               p.caches.core().Pods(),
		NodeInformer:              p.caches.core().Nodes(),
		EnableDynamicProvisioning: true,
	})
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func newPVCProtection(ctx context.Context, p parts) (run, error) {
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), p.caches.core().PersistentVolumeClaims(),
		p.caches.core().Pods(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newPVProtection(ctx context.Context, p parts) (run, error) {
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), p.caches.core().PersistentVolumes(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newVACProtection(ctx context.Context, p parts) (run, error) {
	c, err := vacprotection.NewVACProtectionController(klog.FromContext(ctx), p.client, p.caches.core().PersistentVolumeClaims(),
		p.caches.core().PersistentVolumes(), p.caches.storage().VolumeAttributesClasses())
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}
