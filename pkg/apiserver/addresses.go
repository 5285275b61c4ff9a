package apiserver

import (
	"context"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/networking"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
)

// withLiveAddresses returns informers whose lister of IPAddresses reads live before it says that there is none. kube-apiserver's
// repair controller learns of a new Service and of its IPAddress by two watches. If the Service comes first, it would take
// the address for one that was never allocated, and write the Event ClusterIPNotAllocated of type Warning.
func withLiveAddresses(all informers.SharedInformerFactory, client kubernetes.Interface) informers.SharedInformerFactory {
	return addressFactory{all, client}
}

type addressFactory struct {
	informers.SharedInformerFactory
	client kubernetes.Interface
}

func (f addressFactory) Networking() networking.Interface {
	return addressGroup{f.SharedInformerFactory.Networking(), f.client}
}

type addressGroup struct {
	networking.Interface
	client kubernetes.Interface
}

func (g addressGroup) V1() networkinginformers.Interface {
	return addressVersion{g.Interface.V1(), g.client}
}

type addressVersion struct {
	networkinginformers.Interface
	client kubernetes.Interface
}

func (v addressVersion) IPAddresses() networkinginformers.TypedIPAddressInformer {
	return addressInformer{v.Interface.IPAddresses(), v.client}
}

type addressInformer struct {
	networkinginformers.TypedIPAddressInformer
	client kubernetes.Interface
}

func (i addressInformer) Lister() networkinglisters.IPAddressLister {
	return addressLister{i.TypedIPAddressInformer.Lister(), i.client}
}

type addressLister struct {
	networkinglisters.IPAddressLister
	client kubernetes.Interface
}

// liveAddressTimeout bounds a live read: a lister has no context.
const liveAddressTimeout = 10 * time.Second

func (l addressLister) Get(name string) (*networkingv1.IPAddress, error) {
	cached, err := l.IPAddressLister.Get(name)
	if !apierrors.IsNotFound(err) {
		return cached, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), liveAddressTimeout)
	defer cancel()
	return l.client.NetworkingV1().IPAddresses().Get(ctx, name, metav1.GetOptions{})
}
