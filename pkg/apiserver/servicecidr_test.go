package apiserver

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/reap-dev/reap/tests/bubble"
)

// TestFirstStartWritesNoWarningAboutTheServiceCIDR has watches that are slower than the controller: it must not take the object that
// it has just created for one of another range.
func TestFirstStartWritesNoWarningAboutTheServiceCIDR(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependWatchReactor("servicecidrs", func(k8stesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
		refusals := 2 // as while the server is starting
		client.PrependReactor("get", "servicecidrs", func(k8stesting.Action) (bool, runtime.Object, error) {
			if refusals--; refusals >= 0 {
				return true, nil, apierrors.NewServiceUnavailable("not yet")
			}
			return false, nil, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		_, primary, _ := net.ParseCIDR("10.43.0.0/16")
		if err := startServiceCIDRController(ctx, client, *primary, net.IPNet{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the controller has looked a second time
		made, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil || len(made.Spec.CIDRs) != 1 || made.Spec.CIDRs[0] != "10.43.0.0/16" {
			t.Errorf("the ServiceCIDR is %+v (%v)", made.Spec, err)
		}
		creations := 0
		for _, a := range client.Actions() {
			if a.GetVerb() != "create" {
				continue
			}
			creations++
			if a.GetResource().Resource == "events" {
				t.Errorf("it writes the Event %+v", a.(k8stesting.CreateAction).GetObject())
			}
		}
		if creations != 1 {
			t.Errorf("it creates %d objects", creations)
		}
		stop()
		synctest.Wait()
	})
}
