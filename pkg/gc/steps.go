package gc

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/plan"
)

// Steps is a collector that nothing drives: it has no monitors, workers or timers, and
// nobody tells it of a pause but Pause. A test that decides by itself what happens when, as tests/model does,
// fills the graph and takes the collector's steps one by one. They may be taken
// concurrently.
type Steps struct{ collector *Collector }

// StepsOptions replaces what a collector has from the process and from its monitors.
type StepsOptions struct {
	Options
	Now func() time.Time
	// Deletes and Orphans are told what there is a reason to look at, by Add and AddAfter
	// alone. An object that failed is added after AfterFailure.
	Deletes, Orphans workqueue.TypedDelayingInterface[graph.Key]
	// Holds returns why there may be dependents that nobody can list.
	Holds func() error
}

// AfterFailure stands for the delay after a failure, whatever it would be.
const AfterFailure = time.Nanosecond

// NewSteps prepares a collector.
func NewSteps(o StepsOptions) (*Steps, error) {
	queues := map[string]workqueue.TypedDelayingInterface[graph.Key]{deleteQueue: o.Deletes, orphanQueue: o.Orphans}
	c, err := newCollector(o.Options, func(name string, shape func(graph.Key) (string, int), now func() time.Time) *queue {
		return &queue{TypedDelayingInterface: queues[name], lanes: newLanes(shape, now), backoff: workqueue.NewTypedItemFastSlowRateLimiter[graph.Key](AfterFailure, AfterFailure, 0)}
	})
	if err != nil {
		return nil, err
	}
	c.now = o.Now
	c.orphaner.search.holds = o.Holds
	c.gate.set(pause.State{})
	return &Steps{c}, nil
}

// Graph returns the graph, which the caller is to fill.
func (s *Steps) Graph() *graph.Graph { return s.collector.graph }

// Attempt is a worker's turn with one object, as it comes from the queue.
func (s *Steps) Attempt(ctx context.Context, k graph.Key) { s.collector.deleting.workOn(ctx, k) }

// Orphan is a worker's turn with one owner whose dependents are to stay.
func (s *Steps) Orphan(ctx context.Context, k graph.Key) { s.collector.orphans.workOn(ctx, k) }

// Pause tells the collector that it is paused, or no longer. It takes no turns in a pause,
// since that is what its workers wait for: do not begin one.
func (s *Steps) Pause(paused bool) { s.collector.gate.set(pause.State{Paused: paused}) }

// LookForRings breaks the rings that there are, if anything has changed.
func (s *Steps) LookForRings(ctx context.Context) { s.collector.breaker.look(ctx) }

// PlanRules are what a plan goes by.
func (s *Steps) PlanRules() plan.Rules { return s.collector.planRules() }
