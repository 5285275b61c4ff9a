package plan

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestPlanDuringAPauseComesToAnEnd: a pause without an end is taken to end now, so that the
// deadline of a foreground deletion comes after its timeout.
func TestPlanDuringAPauseComesToAnEnd(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "held", OtherFinalizers: true}, "owner")
	rules := Rules{Options: decide.Options{
		Timeout: decide.Timeout{Base: 10 * time.Minute}, Pauses: decide.Pauses{{From: now.Add(-time.Hour)}},
	}}
	res := c.delete(foreground, rules, "owner")
	if res.Took > 11*time.Minute {
		t.Errorf("the deletion takes %s, want 10m", res.Took)
	}
	if o := object(t, res, "owner"); o.Fate != Gone || !o.TimedOut {
		t.Errorf("the owner: %+v", o)
	}
}

// TestPlanEndsWithItsRequest: a cancelled context aborts a simulation.
func TestPlanEndsWithItsRequest(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Take(c.Graph, []graph.Key{c.key("owner")}).Delete(ctx, foreground, Rules{}, now); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestPlanIsBoundedInSteps: a simulation that goes on for ever is an error.
func TestPlanIsBoundedInSteps(t *testing.T) {
	b := &bound{ctx: t.Context(), steps: 1000}
	n := 0
	for b.step() && n < 2000 {
		n++
	}
	if n != 1000 || !errors.Is(b.err, ErrEndless) {
		t.Errorf("%d steps, %v", n, b.err)
	}
}
