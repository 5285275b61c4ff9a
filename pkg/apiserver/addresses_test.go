package apiserver

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestAddressThatNoWatchHasShownIsReadLive: the address of a new Service is there before the watch of addresses shows it.
func TestAddressThatNoWatchHasShownIsReadLive(t *testing.T) {
	address := func(name string) *networkingv1.IPAddress {
		return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	client := fake.NewClientset(address("10.43.0.1"))
	all := informers.NewSharedInformerFactory(client, 0)
	live := withLiveAddresses(all, client).Networking().V1().IPAddresses()
	if err := all.Networking().V1().IPAddresses().Informer().GetStore().Add(address("10.43.0.2")); err != nil {
		t.Fatal(err)
	}
	if got, err := live.Lister().Get("10.43.0.1"); err != nil || got.Name != "10.43.0.1" {
		t.Errorf("an address that no watch has shown: %v, %v", got, err)
	}
	if got, err := live.Lister().Get("10.43.0.3"); !apierrors.IsNotFound(err) {
		t.Errorf("an address that nothing has: %v, %v", got, err)
	}
	client.ClearActions()
	if got, err := live.Lister().Get("10.43.0.2"); err != nil || got.Name != "10.43.0.2" || len(client.Actions()) != 0 {
		t.Errorf("an address that a watch has shown: %v, %v, after %v", got, err, client.Actions())
	}
}
