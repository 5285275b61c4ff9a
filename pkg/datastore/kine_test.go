package datastore

import (
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/prometheus/client_golang/prometheus"
)

// TestDatastoresAreBuiltIn: those that the configuration takes, and none that it refuses.
func TestDatastoresAreBuiltIn(t *testing.T) {
	for _, scheme := range []string{"sqlite", "postgres", "postgresql", "mysql", "http", "https", "unix", "unixs"} {
		if _, ok := drivers.Get(scheme); !ok {
			t.Errorf("there is no %s", scheme)
		}
	}
	for _, scheme := range []string{"t4", "memory", "nats"} {
		if _, ok := drivers.Get(scheme); ok {
			t.Errorf("%s is built in, and not to be used", scheme)
		}
	}
}

// TestStartsAgainAfterStop: a stop leaves nothing that is in the way of the next start.
func TestStartsAgainAfterStop(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
	}
}
