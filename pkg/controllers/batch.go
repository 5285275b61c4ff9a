package controllers

import (
	"context"
	_ "time/tzdata" // small devices have none, and a CronJob may name a time zone

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers/scheduling"
	schedulingv1beta1 "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/features"
)

func newJob(ctx context.Context, p parts) (run, error) {
	// With this feature, which is off by default, the controller needs two more.
	var workloads schedulingv1beta1.WorkloadInformer
	var groups schedulingv1beta1.PodGroupInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.WorkloadWithJob) {
		more := scheduling.New(p.caches, metav1.NamespaceAll, nil).V1beta1()
		workloads, groups = more.Workloads(), more.PodGroups()
	}
	c, err := job.NewController(ctx, p.client, p.caches.core().Pods(), p.caches.batch().Jobs(), workloads, groups)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newCronJob(ctx context.Context, p parts) (run, error) {
	c, err := cronjob.NewControllerV2(ctx, p.caches.batch().Jobs(), p.caches.batch().CronJobs(), p.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newTTLAfterFinished(ctx context.Context, p parts) (run, error) {
	return withWorkers(ttlafterfinished.New(ctx, p.caches.batch().Jobs(), p.client).Run), nil
}
