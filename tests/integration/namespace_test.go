package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteNamespace deletes a namespace and waits for its end, as kubectl does.
func (s *server) deleteNamespace(t *testing.T, ns string) {
	t.Helper()
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitNamespaceGone(t, ns)
}

func (s *server) awaitNamespaceGone(t *testing.T, ns string) {
	t.Helper()
	await(t, "namespace "+ns+" to go", func(ctx context.Context) (bool, any) {
		n, err := s.kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, []any{err, n.Status}
	})
}

func TestNamespaceWithObjectsInItEnds(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "ends"), s.namespace(t, "ends-not")
	sprockets, crd := s.define(t, "Namespaced", "sprockets", "Sprocket")
	for _, n := range []string{ns, other} {
		o := s.create(t, sprockets, n, "owner")
		s.createMany(t, 100, configMaps, n, "dependent", owner(o))
		s.createMany(t, 100, sprockets, n, "dependent", owner(o))
		s.createMany(t, 20, secrets, n, "unowned")
	}
	s.deleteNamespace(t, ns)
	if got := s.count(t, configMaps, ns) + s.count(t, sprockets, ns) + s.count(t, secrets, ns); got != 0 {
		t.Errorf("%d objects outlive their namespace", got)
	}
	if got := s.count(t, configMaps, other) + s.count(t, sprockets, other) + s.count(t, secrets, other); got != 100+101+20 {
		t.Errorf("%d objects are left in the other namespace", got)
	}
	s.undefine(t, crd)
	s.awaitCount(t, 0, configMaps, other)
}

// TestNamespaceGetsWhatPodsNeed relies on namespace to wait for both objects.
func TestNamespaceGetsWhatPodsNeed(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "fresh")
	cm, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), rootCA, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(cm.Data["ca.crt"])) {
		t.Fatalf("no certificate in %v", cm.Data)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	if got := status(t, c, s.URL+"/version"); got != http.StatusOK {
		t.Errorf("trusting only that certificate, /version answers %d", got)
	}
}
