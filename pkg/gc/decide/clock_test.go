package decide

import (
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/jump"
)

// TestJumpsOfTheClock: somebody sets the clock forward or back while a foreground deletion waits. The deletion times out neither
// earlier nor later, also if the collector was paused meanwhile. An object that is shown again carries the same deletion timestamp.
func TestJumpsOfTheClock(t *testing.T) {
	widgets := &graph.Resource{Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true, Monitored: true}
	gr := widgets.GroupResource()
	const timeout = time.Hour
	for _, by := range []time.Duration{50 * 365 * 24 * time.Hour, time.Hour, 0, -time.Hour, -50 * 365 * 24 * time.Hour} {
		began := time.Now()
		g := graph.New()
		g.SetCatalog(graph.NewCatalog([]*graph.Resource{widgets}), began)
		g.AddResource(gr, widgets.GroupKind(), began)
		rec := &graph.Record{Namespace: "n", Name: "o", UID: "o", ResourceVersion: "1", Deleting: true, Foreground: true, DeletedAt: began.Unix()}
		g.Upsert(gr, rec, began)
		after := func(d time.Duration) time.Time { return jump.By(began.Add(d), by) }
		again := *rec
		again.ResourceVersion = "2"
		g.Upsert(gr, &again, after(time.Minute))

		over := func(o Options, now time.Time) bool {
			v, _ := g.View(graph.Key{Resource: gr, UID: "o"})
			v.Survey = &graph.Survey{}
			deadline, _ := Deadline(&v, o, now)
			return !now.Before(deadline)
		}
		// The timestamp has no fractions of a second.
		o := Options{Timeout: Timeout{Base: timeout}}
		if over(o, after(timeout-2*time.Second)) || !over(o, after(timeout+2*time.Second)) {
			t.Errorf("the clock jumped by %s, and the deadline with it", by)
		}
		o.Pauses = Pauses{{From: began.Add(10 * time.Minute), To: after(20 * time.Minute)}, {From: after(30 * time.Minute)}}
		if now := after(3 * timeout); over(o, now) || o.Pauses.Within(began, now) != 10*time.Minute+3*timeout-30*time.Minute {
			t.Errorf("the clock jumped by %s, and it was paused for %s", by, o.Pauses.Within(began, now))
		}
	}
}
