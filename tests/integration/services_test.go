package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	endpoints = kind{corev1.SchemeGroupVersion.WithResource("endpoints"), "Endpoints"}
	slicesOf  = kind{schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, "EndpointSlice"}
)

const selecting = `
apiVersion: v1
kind: Service
metadata: {name: test}
spec: {selector: {app: test}, ports: [{port: 80}]}
`

// becomeReady says of a pod what its kubelet would.
func (s *server) becomeReady(t *testing.T, o *unstructured.Unstructured, ip string) {
	t.Helper()
	s.patchStatus(t, pods, o, map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	})
}

// awaitSlice waits until a Service has one EndpointSlice with these addresses, and returns it.
func (s *server) awaitSlice(t *testing.T, ns, service string, addresses ...string) (slice *unstructured.Unstructured) {
	t.Helper()
	want := fmt.Sprint(addresses)
	await(t, "a slice of "+service+" with "+want, func(ctx context.Context) (bool, any) {
		list, err := s.kube.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Sprint(len(list.Items), " slices, ", err)
		}
		var got []string
		for _, e := range list.Items[0].Endpoints {
			got = append(got, e.Addresses...)
		}
		slice = s.read(t, slicesOf, ns, list.Items[0].Name)
		return fmt.Sprint(got) == want, got
	})
	return slice
}

// TestEndpointsOfAServiceFollowItsPods and go with it: the collector deletes the slice first, for it blocks its owner.
func TestEndpointsOfAServiceFollowItsPods(t *testing.T) {
	s := shared(t)
	n := s.node(t, "endpoints") // a slice has only pods whose Node exists
	for _, policy := range []metav1.DeletionPropagation{foreground, background} {
		t.Run(string(policy), func(t *testing.T) {
			ns := s.namespace(t, "endpoints")
			o := s.from(t, services, ns, selecting)
			p := s.from(t, pods, ns, pod)
			s.bind(t, p, n.GetName())
			s.becomeReady(t, p, "10.1.2.3")
			slice := s.awaitSlice(t, ns, "test", "10.1.2.3")
			if got, want := asJSON(t, slice.GetOwnerReferences()), asJSON(t, []metav1.OwnerReference{controlledBy(o)}); got != want {
				t.Errorf("the slice is owned by\n%s and not by\n%s", got, want)
			}
			await(t, "endpoints with the pod", func(ctx context.Context) (bool, any) {
				e, err := s.dyn.Resource(endpoints.gvr).Namespace(ns).Get(ctx, "test", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				return strings.Contains(asJSON(t, e.Object["subsets"]), `"ip":"10.1.2.3"`), e.Object["subsets"]
			})
			now := int64(0)
			s.deleteWith(t, pods, p, metav1.DeleteOptions{GracePeriodSeconds: &now})
			s.awaitSlice(t, ns, "test")
			s.deleteAs(t, services, o, policy)
			s.awaitGone(t, services, o)
			s.awaitGone(t, slicesOf, slice)
			s.awaitCount(t, 0, endpoints, ns)
		})
	}
}

// TestEndpointsOfNoSelectorAreMirrored into a slice that goes with them.
func TestEndpointsOfNoSelectorAreMirrored(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "mirrored")
	s.from(t, services, ns, `
apiVersion: v1
kind: Service
metadata: {name: test}
spec: {ports: [{port: 80}]}
`)
	o := s.from(t, endpoints, ns, `
apiVersion: v1
kind: Endpoints
metadata: {name: test}
subsets: [{addresses: [{ip: 10.4.5.6}], ports: [{port: 80}]}]
`)
	slice := s.awaitSlice(t, ns, "test", "10.4.5.6")
	s.deleteAs(t, endpoints, o, background)
	s.awaitGone(t, slicesOf, slice)
}
