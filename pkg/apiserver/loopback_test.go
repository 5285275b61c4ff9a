package apiserver

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// TestTheAPIServerTrustsItselfForEver gives a client a certificate that is over.
func TestTheAPIServerTrustsItselfForEver(t *testing.T) {
	began := time.Now()
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{
		Host: genericapiserver.LoopbackClientServerNameOverride, MaxAge: time.Minute, // it begins an hour ago
	})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()
	loopback := &rest.Config{
		Host:        server.URL,
		BearerToken: "token",
		TLSClientConfig: rest.TLSClientConfig{
			CAData: certPEM, ServerName: genericapiserver.LoopbackClientServerNameOverride,
		},
	}
	// As kube-apiserver's own, this client is made first.
	client, err := rest.HTTPClientFor(rest.AddUserAgent(loopback, "informers"))
	if err != nil {
		t.Fatal(err)
	}
	configs := make([]*genericapiserver.Config, 2)
	for i := range configs {
		check := healthz.NamedCheck(loopbackCheck, func(*http.Request) error { return nil })
		configs[i] = &genericapiserver.Config{
			HealthzChecks: []healthz.HealthChecker{healthz.PingHealthz, check},
			LivezChecks:   []healthz.HealthChecker{check, healthz.PingHealthz},
		}
	}
	if err := trustItself(loopback, began.Add(-59*time.Minute-30*time.Second), configs...); err != nil {
		t.Fatal(err)
	}

	pool, err := certutil.NewPoolFromBytes(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, ServerName: genericapiserver.LoopbackClientServerNameOverride,
	}}}
	if resp, err := other.Get(server.URL); err == nil {
		_ = resp.Body.Close() // has none
		t.Error("the certificate is not over")
	}
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // has none
	for _, c := range configs {
		if len(c.HealthzChecks) != 1 || len(c.LivezChecks) != 1 || c.LivezChecks[0] != healthz.PingHealthz {
			t.Errorf("checks are %v and %v", c.HealthzChecks, c.LivezChecks)
		}
	}
}

func TestATransportWithoutTLSIsRefused(t *testing.T) {
	if err := stopClock(&http.Transport{}, time.Now()); err == nil {
		t.Error("no error")
	}
}
