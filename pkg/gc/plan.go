package gc

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// unseenOwners is how many owners that no monitor shows a plan reads live.
const unseenOwners = 1000

const (
	// planWithin bounds the time of a plan, its wait for others included.
	planWithin = 30 * time.Second
	// plansAtOnce is how many plans may wait or be made; further ones are refused.
	plansAtOnce = 16
)

// Plan foretells a deletion. Plans are made one at a time; cancelling ctx ends the wait
// for that.
func (c *Collector) Plan(ctx context.Context, q report.PlanRequest) (report.Plan, error) {
	for _, k := range q.Targets {
		if _, ok := c.graph.View(k); !ok {
			return report.Plan{}, c.unseen(k)
		}
	}
	if c.plans.Add(1) > plansAtOnce {
		c.plans.Add(-1)
		return report.Plan{}, report.ErrTooManyPlans
	}
	defer c.plans.Add(-1)
	ctx, cancel := context.WithTimeoutCause(ctx, planWithin, fmt.Errorf("no plan within %s: %w", planWithin, context.DeadlineExceeded))
	defer cancel()
	select {
	case c.planning <- struct{}{}:
		defer func() { <-c.planning }()
	case <-ctx.Done():
		return report.Plan{}, fmt.Errorf("waiting for another plan to end: %w", context.Cause(ctx))
	}
	w := plan.Take(c.graph, q.Targets)
	c.readUnseen(ctx, w)
	res, err := w.Delete(ctx, metav1.DeletionPropagation(q.Policy), c.planRules(), c.now())
	if err != nil {
		return report.Plan{}, err
	}
	p := report.PlanOf(res, q, c.now())
	p.Basis, p.Pause = c.basis(), c.pauseReport()
	return p, nil
}

// readUnseen reads the owners live that no monitor shows. One that cannot be read is left
// out: the plan says so.
func (c *Collector) readUnseen(ctx context.Context, w *plan.World) {
	unseen := w.Unseen(c.now(), unseenOwners)
	facts := make([]graph.Fact, len(unseen))
	var pool errgroup.Group
	pool.SetLimit(c.workers)
	for i, o := range unseen {
		pool.Go(func() error {
			facts[i], _ = c.attempts.actor.Verify(ctx, o, c.now())
			return nil
		})
	}
	_ = pool.Wait() // none fails
	for i, o := range unseen {
		if facts[i].State != graph.Unproved {
			w.Learn(o.Reference.UID, o.At, facts[i])
		}
	}
}

// planRules are the rules of this collector.
func (c *Collector) planRules() plan.Rules {
	r := plan.Rules{Options: c.decideOptions(), Rings: c.breaker != nil, OrphanTimeout: c.orphaner.timeout, Orphaned: c.attempts.tombstones.has, Disabled: c.disabled}
	if err := c.orphaner.search.holds(); err != nil {
		r.Holds = err.Error()
	}
	return r
}
