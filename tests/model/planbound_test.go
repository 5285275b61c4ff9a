package model

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

// TestEveryPlanComesToAnEnd plans deletions in random worlds, with a collector that runs and with one that is paused. None
// comes to the bound of its steps.
func TestEveryPlanComesToAnEnd(t *testing.T) {
	worlds := size.Of[uint64](1000, 1000, 100_000) / slowness
	plans := 0
	for seed := uint64(1); seed <= worlds && !t.Failed(); seed++ {
		bubble.Test(t, func(t *testing.T) {
			w := worldOf(seed)
			w.lossless = true
			m := w.start()
			defer m.close()
			g := &generator{world: w, r: rand.New(rand.NewPCG(w.seed, 3))}
			for range w.objects {
				m.apply(g.create())
			}
			m.settle()
			d := drawDeletion(g, m)
			if d == nil {
				return
			}
			plans++
			running := m.real.PlanRules()
			running.Rings = m.detects
			paused := running
			paused.Options.Pauses = decide.Pauses{{From: m.now.Add(-time.Minute)}}
			for name, rules := range map[string]plan.Rules{"running": running, "paused": paused} {
				if _, err := plan.Take(m.graph, d.keys).Delete(t.Context(), d.policy, rules, m.now); err != nil {
					t.Errorf("world %d, %s: %v\n%sdelete %v %q", seed, name, err, d.world, d.uids, d.policy)
				}
			}
		})
	}
	if plans < int(worlds)/2 {
		t.Errorf("only %d plans in %d worlds", plans, worlds)
	}
}
