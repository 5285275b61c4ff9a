package apiserver

import (
	"context"
	"net"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/features"
)

// serviceCIDRHook is kube-apiserver's post-start hook that makes the ServiceCIDR of --service-cluster-ip-range. Its controller
// creates the object and looks again at once, in an informer that may not show it yet. Then it creates it a second time,
// takes the empty answer for the object, and writes the Event KubernetesDefaultServiceCIDRInconsistent of type Warning.
const serviceCIDRHook = "start-kubernetes-service-cidr-controller"

// takeServiceCIDRHook turns serviceCIDRHook off, and reports whether the caller has to add another in its place.
func takeServiceCIDRHook(c *genericapiserver.Config) bool {
	if !utilfeature.DefaultFeatureGate.Enabled(features.MultiCIDRServiceAllocator) {
		return false
	}
	off := sets.NewString(c.DisabledPostStartHooks.UnsortedList()...) // other servers' configurations share the set
	c.DisabledPostStartHooks = off.Insert(serviceCIDRHook)
	return true
}

// newServiceCIDRHook returns the hook in its place.
func newServiceCIDRHook(ranges *controlplane.Extra) genericapiserver.PostStartHookFunc {
	return func(ctx genericapiserver.PostStartHookContext) error {
		client, err := kubernetes.NewForConfig(ctx.LoopbackClientConfig)
		if err != nil {
			return err
		}
		return startServiceCIDRController(ctx, client, ranges.ServiceIPRange, ranges.SecondaryServiceIPRange)
	}
}

// startServiceCIDRController starts kube-apiserver's controller once the object is there, so that its informer begins with it.
func startServiceCIDRController(ctx context.Context, client kubernetes.Interface, primary, secondary net.IPNet) error {
	cidrs := []string{primary.String()}
	if secondary.IP != nil {
		cidrs = append(cidrs, secondary.String())
	}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := ensureServiceCIDR(ctx, client, cidrs)
		if err != nil {
			klog.V(1).InfoS("creating the default ServiceCIDR; will retry", "err", err)
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // the server stops
	}
	defaultservicecidr.NewController(primary, secondary, client).Start(ctx)
	return nil
}

// ensureServiceCIDR creates the default ServiceCIDR unless there is one.
func ensureServiceCIDR(ctx context.Context, client kubernetes.Interface, cidrs []string) error {
	all := client.NetworkingV1().ServiceCIDRs()
	_, err := all.Get(ctx, defaultservicecidr.DefaultServiceCIDRName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err // nil if it is there
	}
	_, err = all.Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: defaultservicecidr.DefaultServiceCIDRName},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // another server of this datastore was faster
	}
	return err
}
