package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// cyclesEvery is how often rings are looked for, if anything has changed.
	cyclesEvery = time.Second
	// namedMembers is how many members of a ring are named to users.
	namedMembers = 5
)

var errRingChanges = errors.New("a member changed while the ring was being broken")

// breakCycles looks for rings of objects in foreground deletion and breaks them,
// until ctx ends.
func (c *Collector) breakCycles(ctx, calls context.Context) {
	tick := time.NewTicker(cyclesEvery)
	defer tick.Stop()
	var again time.Time // when to look though nothing has changed
	delay := cyclesEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !c.gate.wait(ctx) {
			return
		}
		// Both, always: a failure must not eat up a change.
		changed := c.graph.TakeWaitingChanged()
		if !changed && (again.IsZero() || c.now().Before(again)) {
			continue
		}
		again = time.Time{}
		var failed error
		for _, ring := range c.graph.Cycles() {
			if err := c.breakCycle(calls, ring); err != nil {
				failed = err
			}
		}
		if failed == nil {
			delay = cyclesEvery
			continue
		}
		if calls.Err() != nil {
			return
		}
		c.log.WithError(failed).Debug("cannot break a ring of objects in foreground deletion yet; trying again")
		again = c.now().Add(delay)
		delay = min(2*delay, retryAtMost)
	}
}

// breakCycle reads the members of a ring live, finds the rings among what is really
// there, and sets blockOwnerDeletion to false on the references within them, and on
// no other. A ring whose members are not all as the graph has them is left for later:
// the events of that are on their way.
func (c *Collector) breakCycle(ctx context.Context, ring []graph.Member) error {
	live, err := c.readMembers(ctx, ring)
	if err != nil {
		return err
	}
	for _, really := range c.graph.CyclesAmong(live) {
		if !unchanged(really, ring) {
			return errRingChanges
		}
		var cut atomic.Bool
		pool, poolCtx := errgroup.WithContext(ctx)
		pool.SetLimit(c.workers)
		for _, m := range really {
			pool.Go(func() error {
				done, err := c.unblock(poolCtx, m)
				if done {
					cut.Store(true)
				}
				return err
			})
		}
		err := pool.Wait()
		if cut.Load() {
			// Even if not all were unblocked: what is left may be a ring no more.
			countCycle()
			c.warnOfRing(really)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unchanged is true if every member that was read live has the version that the graph
// had before. Members are read one after another, and what that shows was perhaps never
// there at once; but a version that is found again was there all the time between, and
// so were all of them together.
func unchanged(read, known []graph.Member) bool {
	versions := make(map[graph.Key]string, len(known))
	for _, m := range known {
		versions[m.Key] = m.Record.ResourceVersion
	}
	for _, m := range read {
		if m.Record.ResourceVersion != versions[m.Key] {
			return false
		}
	}
	return true
}

// warnOfRing tells users at each member why it can go now.
func (c *Collector) warnOfRing(ring []graph.Member) {
	names := memberNames(ring)
	for _, m := range ring {
		if r := c.graph.Catalog().Resource(m.Key.Resource); r != nil {
			c.warn(r, m.Record, "CycleBroken", "Foreground deletion would have waited for ever for a ring of owners, %d in all (%s); they no longer block each other", len(ring), names)
		}
	}
}

// readMembers returns those members that still exist, as they are.
func (c *Collector) readMembers(ctx context.Context, ring []graph.Member) (map[schema.GroupResource][]*graph.Record, error) {
	var mu sync.Mutex
	live := map[schema.GroupResource][]*graph.Record{}
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(c.workers)
	for _, m := range ring {
		pool.Go(func() error {
			r := c.graph.Catalog().Resource(m.Key.Resource)
			if r == nil {
				return nil
			}
			o, outcome, err := c.actor.Read(ctx, r.Preferred(), m.Record.Namespace, m.Record.Name)
			if err != nil {
				return fmt.Errorf("breaking a ring: %w", err)
			}
			if outcome != act.Gone && o.Metadata.UID == m.Key.UID {
				mu.Lock()
				defer mu.Unlock()
				live[m.Key.Resource] = append(live[m.Key.Resource], o.Record())
			}
			return nil
		})
	}
	return live, pool.Wait()
}

// unblock takes a member out of the way of the others; done is true if the server did
// it.
func (c *Collector) unblock(ctx context.Context, m graph.Member) (done bool, err error) {
	r := c.graph.Catalog().Resource(m.Key.Resource)
	if r == nil || len(m.Blocking) == 0 {
		return false, nil
	}
	outcome, err := c.actor.Unblock(ctx, r.Preferred(), m.Record, m.Blocking)
	if err != nil {
		return false, fmt.Errorf("breaking a ring: %w", err)
	}
	if outcome == act.Changed {
		return false, errRingChanges
	}
	return outcome == act.Done, nil
}

// memberNames lists the first few members of a ring.
func memberNames(ring []graph.Member) string {
	var names []string
	for i, m := range ring {
		if i == namedMembers {
			names = append(names, "…")
			break
		}
		names = append(names, m.Key.Resource.String()+"/"+m.Record.Name)
	}
	return strings.Join(names, ", ")
}
