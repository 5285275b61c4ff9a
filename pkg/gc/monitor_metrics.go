package gc

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/reap-dev/reap/pkg/gc/observe"
)

var (
	monitorsDesc = metrics.NewDesc(namespace+"_monitors",
		"Monitors of resources, by state.",
		[]string{"state"}, nil, metrics.ALPHA, "")
	failingDesc = metrics.NewDesc(namespace+"_monitor_failing",
		"1 while a resource cannot be listed or watched; absent otherwise.",
		[]string{"group", "resource"}, nil, metrics.ALPHA, "")
	objectsDesc = metrics.NewDesc(namespace+"_resource_objects",
		"Observed objects in the graph, by resource.",
		[]string{"group", "resource"}, nil, metrics.ALPHA, "")
	collectedDesc = metrics.NewDesc(namespace+"_objects_collected_total",
		"Objects that the collector deleted, by resource and propagation policy, since the resource's monitor began.",
		[]string{"group", "resource", "policy"}, nil, metrics.ALPHA, "")
	sinceSweepDesc = metrics.NewDesc(namespace+"_seconds_since_sweep",
		"Seconds since the last complete comparison with fresh lists, or since the collector began if there was none; absent without sweeps.",
		nil, nil, metrics.ALPHA, "")
)

// policies are the propagation policies that an object can be deleted by.
var policies = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}

// monitorMetrics are the series that come and go with the monitors of the running
// collector. They are read from it at each scrape, so that none can be left behind.
type monitorMetrics struct{ metrics.BaseStableCollector }

func (*monitorMetrics) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{monitorsDesc, failingDesc, objectsDesc, collectedDesc, sinceSweepDesc} {
		ch <- d
	}
}

func (*monitorMetrics) CollectWithStability(ch chan<- metrics.Metric) {
	byState := map[observe.State]int{}
	if c, _ := Running.Collector(); c != nil {
		for _, m := range c.observer.States() {
			byState[m.State]++
			c.collectMonitor(ch, m)
		}
		if since, ok := c.observer.SinceSweep(); ok {
			ch <- metrics.NewLazyConstMetric(sinceSweepDesc, metrics.GaugeValue, since.Seconds())
		}
	}
	for _, s := range observe.MonitorStates() {
		ch <- metrics.NewLazyConstMetric(monitorsDesc, metrics.GaugeValue, float64(byState[s]), string(s))
	}
}

// collectMonitor sends the series of one resource.
func (c *Collector) collectMonitor(ch chan<- metrics.Metric, m observe.MonitorState) {
	gr := m.Resource.GroupResource()
	if m.State == observe.Failing {
		ch <- metrics.NewLazyConstMetric(failingDesc, metrics.GaugeValue, 1, gr.Group, gr.Resource)
	}
	ch <- metrics.NewLazyConstMetric(objectsDesc, metrics.GaugeValue, float64(c.graph.Count(gr)), gr.Group, gr.Resource)
	for _, p := range policies {
		ch <- metrics.NewLazyConstMetric(collectedDesc, metrics.CounterValue, float64(c.tally.count(gr, p)), gr.Group, gr.Resource, string(p))
	}
}

// tally counts the objects that the collector has deleted, by resource, for as
// long as the resource has a monitor. What a worker counts later than that is dropped:
// nobody would take it away again.
type tally struct {
	mu sync.Mutex
	n  map[schema.GroupResource]map[metav1.DeletionPropagation]uint64
	// all counts every object, also those of resources that have no monitor any more.
	all int64
}

func (t *tally) begin(gr schema.GroupResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[schema.GroupResource]map[metav1.DeletionPropagation]uint64{}
	}
	t.n[gr] = map[metav1.DeletionPropagation]uint64{}
}

func (t *tally) end(gr schema.GroupResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.n, gr)
}

func (t *tally) add(gr schema.GroupResource, p metav1.DeletionPropagation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	if n := t.n[gr]; n != nil {
		n[p]++
	}
}

func (t *tally) count(gr schema.GroupResource, p metav1.DeletionPropagation) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[gr][p]
}

// total returns how many objects the collector has deleted.
func (t *tally) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}
