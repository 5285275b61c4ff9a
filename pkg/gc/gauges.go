package gc

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/gc/observe"
)

var (
	monitorsDesc = metrics.NewDesc(namespace+"_monitors",
		"Monitors of resources, by state: synced, syncing (reading the first list), failing (the resource cannot be listed or watched), draining (the resource is no longer served).",
		[]string{"state"}, nil, metrics.ALPHA, "")
	failingDesc = metrics.NewDesc(namespace+"_monitor_failing",
		"1 while the resource cannot be listed or watched; absent otherwise.",
		[]string{"group", "resource"}, nil, metrics.ALPHA, "")
	objectsDesc = metrics.NewDesc(namespace+"_resource_objects",
		"Observed objects in the graph, by resource.",
		[]string{"group", "resource"}, nil, metrics.ALPHA, "")
	collectedDesc = metrics.NewDesc(namespace+"_objects_collected_total",
		"Objects that the collector deleted since the resource's monitor began, by propagation policy: Background, Foreground, Orphan.",
		[]string{"group", "resource", "policy"}, nil, metrics.ALPHA, "")
	sinceSweepDesc = metrics.NewDesc(namespace+"_seconds_since_sweep",
		"Seconds since the last sweep that could read every resource whose monitor works; before the first, since the collector began. Absent with --gc-resync=0.",
		nil, nil, metrics.ALPHA, "")
)

// RegisterMetrics registers the series that are read from the running collector, once however often it is called. Run calls it;
// who may run a collector later, since another server leads, calls it before, so that its metrics say that none runs. It may be
// called at any time, from any goroutine.
func RegisterMetrics() { registerGauges() }

var registerGauges = sync.OnceFunc(func() {
	legacyregistry.RawMustRegister(
		gauge("running", "1 while a collector runs in this process: with several servers, in the leader, and 0 in the others. Absent with --disable=gc.", func(*Collector) int { return 1 }),
		gauge("paused", "1 while the collector writes nothing: it is paused, or has not read yet whether it is.", func(c *Collector) int {
			if c.gate.allow() != nil {
				return 1
			}
			return 0
		}),
		queueAge(deleteQueue, func(c *Collector) *queue { return c.deleting.queue }),
		queueAge(orphanQueue, func(c *Collector) *queue { return c.orphans.queue }),
		gauge("nodes", "Observed objects in the graph.", func(c *Collector) int { return c.graph.Stats().Nodes }),
		gauge("virtual_nodes", "Owners that references name and no monitor shows.", func(c *Collector) int { return c.graph.Stats().Virtual }),
		gauge("edges", "Owner references in the graph.", func(c *Collector) int { return c.graph.Stats().Edges }),
		gauge("undiscovered_groups", "API groups for which discovery fails; what was known of them stays.", func(c *Collector) int { return len(c.observer.Undiscovered()) }),
	)
	legacyregistry.CustomMustRegister(&monitorMetrics{})
})

// gauge makes a series that is read from the running collector, 0 when none runs.
func gauge(name, help string, read func(*Collector) int) metrics.GaugeFunc {
	return gaugeOf(&metrics.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func(c *Collector) float64 { return float64(read(c)) })
}

// queueAge is gauge for the age of a queue's oldest object.
func queueAge(name string, of func(*Collector) *queue) metrics.GaugeFunc {
	return gaugeOf(&metrics.GaugeOpts{
		Namespace: namespace, Name: "queue_oldest_seconds", ConstLabels: map[string]string{"name": name},
		Help: "Seconds that the oldest object of the queue has waited for its turn.",
	}, func(c *Collector) float64 { return of(c).lanes.age().Seconds() })
}

func gaugeOf(o *metrics.GaugeOpts, read func(*Collector) float64) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(o, func() float64 {
		if c, _ := Running.Collector(); c != nil {
			return read(c)
		}
		return 0
	})
}

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
