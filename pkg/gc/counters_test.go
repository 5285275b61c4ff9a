package gc

import (
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	upstream "k8s.io/kubernetes/pkg/controller/garbagecollector/metrics"
)

// The registry may already hold the counter of Kubernetes' own collector.
func TestSyncErrorsShareTheStockCounter(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(upstream.GarbageCollectorResourcesSyncError)
	upstream.GarbageCollectorResourcesSyncError.Reset()
	registerSyncErrors(registry.Register).Inc()
	if n, err := testutil.GetCounterMetricValue(upstream.GarbageCollectorResourcesSyncError); err != nil || n != 1 {
		t.Errorf("the counter that was there is %v (%v)", n, err)
	}
	registry = metrics.NewKubeRegistry()
	registerSyncErrors(registry.Register).Inc()
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "garbagecollector_controller_resources_sync_error_total" ||
		families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("a registry without one has %v (%v)", families, err)
	}
}

// A worker may count after the resource's monitor has gone. That count is not kept
// for the next monitor.
func TestCountsEndWithTheirMonitor(t *testing.T) {
	var c tally
	want := func(want uint64) {
		t.Helper()
		if n := c.count(configMaps, policies[0]); n != want {
			t.Errorf("counted %d, want %d", n, want)
		}
	}
	for range 2 {
		c.begin(configMaps)
		want(0)
		c.add(configMaps, policies[0])
		want(1)
		c.end(configMaps)
		want(0)
		c.add(configMaps, policies[0])
	}
}
