package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
)

// loopbackCheck is the check of kube-apiserver that wants a restart after three years.
const loopbackCheck = "loopback-serving-certificate"

// trustItself lets the API server reach itself for as long as it runs. Its own
// controllers and admission plugins connect to its port. The certificate that they
// get there was made at this start, is kept in memory and is the only one that they
// trust. It ends after three years, and all at once when a device that has booted in
// 1970 learns the time. Its dates protect nothing, so they are judged as of made, when
// it was made. To be called before anything connects.
//
// It relies on client-go, which keeps one transport for all who use this configuration.
func trustItself(loopback *rest.Config, made time.Time, configs ...*genericapiserver.Config) error {
	transport, err := rest.TransportFor(loopback)
	if err != nil {
		return fmt.Errorf("preparing the API server's way to itself: %w", err)
	}
	if err := stopClock(transport, made); err != nil {
		return fmt.Errorf("preparing the API server's way to itself: %w", err)
	}
	isLoopback := func(c healthz.HealthChecker) bool { return c.Name() == loopbackCheck }
	for _, c := range configs {
		// Clones: the configurations may share what they were made from.
		c.HealthzChecks = slices.DeleteFunc(slices.Clone(c.HealthzChecks), isLoopback)
		c.LivezChecks = slices.DeleteFunc(slices.Clone(c.LivezChecks), isLoopback)
	}
	return nil
}

// stopClock makes a transport judge certificates at one time for ever.
func stopClock(transport http.RoundTripper, at time.Time) error {
	config, err := utilnet.TLSClientConfig(transport)
	if err != nil {
		return err
	}
	if config == nil {
		return fmt.Errorf("a %T has no TLS", transport)
	}
	config.Time = func() time.Time { return at }
	return nil
}
