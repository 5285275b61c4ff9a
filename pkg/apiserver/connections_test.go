package apiserver

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/datastore"
)

// countedConn is a connection that counts itself while it is open.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.once.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// dialed counts the connections to a datastore.
type dialed struct{ all, open atomic.Int64 }

// at is a client in process for the one that would dial.
type at struct {
	*clientv3.Client
	endpoints []string
}

func (a at) Endpoints() []string { return a.endpoints }

// configOf starts an etcd, and returns what kube-apiserver knows of it, through a dialer that counts.
func configOf(t *testing.T) (storagebackend.Config, *dialed) {
	t.Helper()
	store, err := datastore.Start(t.Context(), datastore.Options{
		Dir: t.TempDir(), Endpoint: datastore.Etcd, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	// kube-apiserver asks each endpoint for its version once, and dials for that.
	feature.DefaultFeatureSupportChecker.CheckClient(t.Context(), at{store.Client(), store.Endpoints}, storage.RequestWatchProgress)
	d := &dialed{}
	config := storagebackend.NewDefaultConfig("/registry", nil)
	config.Transport.ServerList = store.Endpoints
	config.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(store.Endpoints[0], "unix://"))
			if err != nil {
				return nil, err
			}
			d.all.Add(1)
			d.open.Add(1)
			return &countedConn{Conn: conn, open: &d.open}, nil
		}, nil
	}
	return *config, d
}

// TestStoresShareAConnection: each works, and goes on when another is closed; the connection goes with the last one.
func TestStoresShareAConnection(t *testing.T) {
	config, dialed := configOf(t)
	var shared connections
	connect := func() backend {
		b, err := shared.connect(config)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, second, third := connect(), connect(), connect()
	if n := dialed.all.Load(); n != 1 {
		t.Errorf("three stores dialed %d times", n)
	}
	if first.compactor == nil || first.compactor != third.compactor {
		t.Errorf("the stores have the compactors %v and %v", first.compactor, third.compactor)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	calls := callsOf(t, "Put")
	one, other := first.client.Watch(ctx, "/a"), second.client.Watch(ctx, "/a", clientv3.WithCreatedNotify())
	<-other // it watches
	first.close()
	if r, ok := <-one; ok && !r.Canceled {
		t.Errorf("the watch of a store that is closed shows %v", r)
	}
	if _, err := third.client.Put(ctx, "/a", "1"); err != nil {
		t.Fatal(err)
	}
	if r := <-other; len(r.Events) != 1 {
		t.Errorf("another store's watch shows %v, %v", r.Events, r.Err())
	}
	if n := callsOf(t, "Put") - calls; n != 1 {
		t.Errorf("kube-apiserver's metrics count %v calls", n)
	}

	second.close()
	if n := dialed.open.Load(); n != 1 {
		t.Errorf("%d connections are open for a store", n)
	}
	third.close()
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) { return dialed.open.Load() == 0, nil })
	if err != nil {
		t.Errorf("%d connections are open for no store", dialed.open.Load())
	}
	again := connect()
	defer again.close()
	if _, err := again.client.Get(ctx, "/a"); err != nil {
		t.Error(err)
	}
	if n := dialed.all.Load(); n != 2 {
		t.Errorf("a store after the last one was closed: dialed %d times", n)
	}
	if again.compactor == first.compactor {
		t.Error("the new connection has the compactor of the old one, which has stopped")
	}
}

// TestStoresOfOtherDatastoresAreDialed as --etcd-servers-overrides asks for.
func TestStoresOfOtherDatastoresAreDialed(t *testing.T) {
	config, dialed := configOf(t)
	other, dialedOther := configOf(t)
	config.CompactionInterval = 0
	var shared connections
	for _, c := range []storagebackend.Config{config, other} {
		b, err := shared.connect(c)
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		if c.CompactionInterval == 0 && b.compactor != nil {
			t.Error("there is a compactor for a datastore that compacts itself")
		}
		if _, err := b.client.Get(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	}
	if a, b := dialed.all.Load(), dialedOther.all.Load(); a != 1 || b != 1 {
		t.Errorf("dialed %d and %d times", a, b)
	}
}

// callsOf returns how many calls of a method kube-apiserver's metrics count.
func callsOf(t *testing.T, method string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		if f.GetName() != "grpc_client_started_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "grpc_method" && l.GetValue() == method {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
