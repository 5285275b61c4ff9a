package rig

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// Blind says that the collector cannot be expected to see a resource's objects,
// while a fault lasts.
func (r *Rig) Blind(resource string, blind bool) { r.blind[resource] = blind }

// Undiscoverable says that the collector cannot be expected to know what is served.
func (r *Rig) Undiscoverable(is bool) { r.undefined = is }

// Rest waits until the collector has nothing left to do. While it is paused, it only has to
// know what exists.
func (r *Rig) Rest() {
	r.t.Helper()
	why := ""
	if !r.until(func() bool { why = r.busy(); return why == "" }) {
		r.t.Fatalf("the collector does not come to rest: %s", why)
	}
	r.Check()
}

// Resting is true if the collector has nothing left to do.
func (r *Rig) Resting() bool { return r.busy() == "" }

// Check fails the test if the graph's invariants do not hold.
func (r *Rig) Check() {
	r.t.Helper()
	if err := r.collector.Graph().Check(); err != nil {
		r.t.Errorf("the graph is broken: %v", err)
	}
}

// busy says why the collector is not at rest; empty if it is.
//
// The order matters. The graph is compared with the store, and each object is decided
// about, while no worker is at work. The only thing that can still follow is an event on
// its way into a queue, of an object that needs no action.
func (r *Rig) busy() string {
	if r.paused {
		return r.behind()
	}
	calls := len(r.Calls(0))
	if n := r.unfinished(); n != 0 {
		return fmt.Sprintf("%v items are queued or worked on", n)
	}
	if n := r.InFlight(); n > 0 {
		return fmt.Sprintf("%d requests are under way", n)
	}
	if why := r.behind(); why != "" {
		return why
	}
	if n := len(r.collector.Graph().Cycles()); n > 0 && !r.keepRings {
		return fmt.Sprintf("rings that have not been broken: %d", n)
	}
	for _, o := range r.Objects() {
		k := graph.Key{Resource: o.Resource.GroupResource(), UID: o.UID}
		if d := next(r.collector.Graph(), k); d.Action != decide.Nothing {
			return fmt.Sprintf("%s %s: %s, since %s", o.Resource.Name, o.Name, d.Action, d.Reason)
		}
	}
	if n := r.unfinished(); n != 0 || calls != len(r.Calls(0)) {
		return "it has just begun something"
	}
	return ""
}

// behind says where the graph differs from the store.
func (r *Rig) behind() string {
	g := r.collector.Graph()
	resources := r.Resources()
	if n := len(g.Catalog().Resources()); !r.undefined && n != len(resources)+1 { // and events
		return fmt.Sprintf("the catalog has %d resources", n)
	}
	shown := map[string]map[types.UID]string{}
	for _, o := range r.Objects() {
		if shown[o.Resource.Name] == nil {
			shown[o.Resource.Name] = map[types.UID]string{}
		}
		shown[o.Resource.Name][o.UID] = o.ResourceVersion
	}
	for _, res := range resources {
		if r.blind[res.Name] || r.undefined && g.Catalog().Resource(res.GroupResource()) == nil {
			continue
		}
		if known := g.Versions(res.GroupResource()); !maps.Equal(known, shown[res.Name]) {
			return fmt.Sprintf("%s: the graph has %v, the store %v", res.Name, known, shown[res.Name])
		}
		if !r.undefined && !sameVersions(g.Catalog(), res) {
			return res.Name + " is not known as it is served"
		}
	}
	return ""
}

func sameVersions(c *graph.Catalog, res *fakeapi.Resource) bool {
	known := c.Resource(res.GroupResource())
	return known != nil && known.Kind == res.Kind && strings.Join(known.Versions, ",") == strings.Join(res.Versions, ",")
}

// next returns what a worker would do about an object once every delay has passed.
func next(g *graph.Graph, k graph.Key) decide.Decision {
	v, ok := g.View(k)
	if !ok {
		return decide.Decision{}
	}
	now := time.Now()
	if v.Record.WaitingForDependents() {
		v.SyncedSince, v.Wait.Since = now.Add(-time.Hour), now.Add(-time.Hour)
	}
	d := decide.Decide(&v, decide.Options{}, now)
	if d.Action != decide.Verify {
		return d
	}
	// A read that shows an owner waiting is believed for a second only. A decision that
	// rested on it stands.
	for i := range v.Owners {
		if o := v.Owners[i].Observed; o != nil && o.WaitingForDependents() {
			v.Owners[i].Fact = graph.Fact{State: graph.Present, Seen: now, Waiting: true, Version: o.ResourceVersion}
		}
	}
	return decide.Decide(&v, decide.Options{}, now)
}

// unfinished counts the items that the collector's queues hold or its workers work on. In a bubble there are none when
// no goroutine has anything to do.
func (r *Rig) unfinished() float64 {
	if r.bubble {
		return 0
	}
	return unfinished() - r.idle
}

// unfinished counts the items that the collector's queues hold or its workers work on, by
// the queues' metrics: items added minus items done. Queues of earlier collectors are
// included.
func unfinished() float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	n := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 || !strings.HasPrefix(m.GetLabel()[0].GetValue(), "garbage_collector_attempt_to_") {
				continue
			}
			switch f.GetName() {
			case "workqueue_adds_total":
				n += m.GetCounter().GetValue()
			case "workqueue_work_duration_seconds":
				n -= float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return n
}
