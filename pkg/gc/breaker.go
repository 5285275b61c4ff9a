package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// ringsEvery is how often the breaker looks for rings, if anything has changed.
	ringsEvery = time.Second
	// toldMembers bounds how many members of a ring get an event.
	toldMembers = 100
)

var errRingChanges = errors.New("a member changed while the ring was being broken")

// breaker breaks rings of objects in foreground deletion.
type breaker struct {
	graph   *graph.Graph
	actor   *act.Actor
	gate    *gate
	workers int
	tell    *teller
	now     func() time.Time
	log     *logrus.Entry
	// later holds the rings that could not be broken, by their first member. It belongs
	// to run.
	later map[graph.Key]ringRetry
	// active is true while look may write.
	active atomic.Bool
}

// ringRetry is when a ring is tried again, and the delay before that.
type ringRetry struct {
	at    time.Time
	delay time.Duration
}

// run looks for rings and breaks them until ctx ends. calls is the context of its calls.
func (b *breaker) run(ctx, calls context.Context) {
	tick := time.NewTicker(ringsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !b.gate.wait(ctx) {
			return
		}
		b.active.Store(true)
		b.look(calls)
		b.active.Store(false)
	}
}

// look breaks all rings, if anything has changed or a ring is due to be tried again.
func (b *breaker) look(ctx context.Context) {
	// Both, always: a failure must not eat up a change.
	changed := b.graph.TakeWaitingChanged()
	if changed || b.due() {
		b.breakAll(ctx)
	}
}

// due is true if it is time to try a ring again that could not be broken.
func (b *breaker) due() bool {
	for _, r := range b.later {
		if !b.now().Before(r.at) {
			return true
		}
	}
	return false
}

// breakAll breaks all rings, small ones first. A ring that cannot be broken is tried again
// after a delay of its own, and does not hold up the others.
func (b *breaker) breakAll(ctx context.Context) {
	later := map[graph.Key]ringRetry{}
	for _, ring := range smallFirst(b.graph.Cycles()) {
		k := firstMember(ring)
		retry, failed := b.later[k]
		if failed && b.now().Before(retry.at) {
			later[k] = retry
			continue
		}
		err := b.breakRing(ctx, ring)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		retry.delay = min(max(2*retry.delay, ringsEvery), retryAtMost)
		retry.at = b.now().Add(retry.delay)
		later[k] = retry
		b.log.WithError(err).WithField("members", len(ring)).Debug("cannot break a ring of objects in foreground deletion yet; will retry")
	}
	b.later = later
}

// smallFirst sorts rings: small ones first, rings of the same size by their first members.
func smallFirst(rings [][]graph.Member) [][]graph.Member {
	slices.SortFunc(rings, func(x, y []graph.Member) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), compareKeys(firstMember(x), firstMember(y)))
	})
	return rings
}

// firstMember returns the member that identifies a ring.
func firstMember(ring []graph.Member) graph.Key {
	return slices.MinFunc(ring, func(x, y graph.Member) int { return compareKeys(x.Key, y.Key) }).Key
}

func compareKeys(x, y graph.Key) int {
	return cmp.Or(cmp.Compare(x.UID, y.UID), cmp.Compare(x.Resource.String(), y.Resource.String()))
}

// breakRing reads the members of a ring live, finds the rings among the live objects, and sets
// blockOwnerDeletion to false on the references within those rings and on no other. If a member
// is not as the graph has it, breakRing leaves the ring for later: the events are on their way.
func (b *breaker) breakRing(ctx context.Context, ring []graph.Member) error {
	live, err := b.readMembers(ctx, ring)
	if err != nil {
		return err
	}
	for _, really := range smallFirst(b.graph.CyclesAmong(live)) {
		if !unchanged(really, ring) {
			return errRingChanges
		}
		var cut atomic.Bool
		pool, poolCtx := errgroup.WithContext(ctx)
		pool.SetLimit(b.workers)
		for _, m := range really {
			pool.Go(func() error {
				done, err := b.unblock(poolCtx, m)
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
			b.warn(really)
		}
		if err != nil {
			return err
		}
	}
	if !unchanged(all(live), ring) {
		// If there was no ring just when it was read it may have been closed again since, and
		// then events that were lost leave nothing new to be seen.
		return errRingChanges
	}
	return nil
}

// all returns objects that were read as members of no ring.
func all(live map[schema.GroupResource][]*graph.Record) (read []graph.Member) {
	for gr, records := range live {
		for _, rec := range records {
			read = append(read, graph.Member{Key: graph.Key{Resource: gr, UID: rec.UID}, Record: rec})
		}
	}
	return read
}

// unchanged is true if every member that was read live has the version that the graph had
// before. Members are read one after another, so the versions read may never have existed at
// the same time. But a version that is found again existed all the time in between, and so all
// of them existed together.
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

// warn gives the members of a ring an event, in a large ring the first ones. Members are in the
// order of their names, so that every event names the same ones.
func (b *breaker) warn(ring []graph.Member) {
	ring = slices.SortedFunc(slices.Values(ring), byName)
	var some []graph.Node
	for _, m := range ring[:min(len(ring), namedObjects)] {
		some = append(some, graph.Node{Key: m.Key, Record: m.Record})
	}
	for _, m := range ring[:min(len(ring), toldMembers)] {
		if r := b.graph.Catalog().Resource(m.Key.Resource); r != nil {
			b.tell.warn(r, m.Record, ringBroken, "Foreground deletion would have waited for ever for a ring of owners, %d in all (%s); they no longer block each other", len(ring), names(some, len(ring), m.Record.Namespace))
		}
	}
}

// byName orders members as users see them: their UIDs say nothing to them.
func byName(a, b graph.Member) int {
	return cmp.Or(
		strings.Compare(a.Key.Resource.String(), b.Key.Resource.String()),
		strings.Compare(a.Record.Namespace, b.Record.Namespace),
		strings.Compare(a.Record.Name, b.Record.Name),
	)
}

// readMembers returns those members that still exist, as they are.
func (b *breaker) readMembers(ctx context.Context, ring []graph.Member) (map[schema.GroupResource][]*graph.Record, error) {
	var mu sync.Mutex
	live := map[schema.GroupResource][]*graph.Record{}
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(b.workers)
	for _, m := range ring {
		pool.Go(func() error {
			r := b.graph.Catalog().Resource(m.Key.Resource)
			if r == nil || ctx.Err() != nil {
				return ctx.Err()
			}
			o, is, err := b.actor.Read(ctx, r.Preferred(), m.Record.Namespace, m.Record.Name, m.Key.UID)
			if err != nil {
				return fmt.Errorf("breaking a ring: %w", err)
			}
			if is == act.Present {
				mu.Lock()
				defer mu.Unlock()
				live[m.Key.Resource] = append(live[m.Key.Resource], o.Record())
			}
			return nil
		})
	}
	return live, pool.Wait()
}

// unblock stops a member from blocking the others; done is true if the server has applied the
// patch.
func (b *breaker) unblock(ctx context.Context, m graph.Member) (done bool, err error) {
	r := b.graph.Catalog().Resource(m.Key.Resource)
	if r == nil || len(m.Blocking) == 0 {
		return false, nil
	}
	outcome, err := b.actor.Unblock(ctx, r.Preferred(), m.Record, m.Blocking)
	if err != nil {
		return false, fmt.Errorf("breaking a ring: %w", err)
	}
	if outcome == act.Changed {
		return false, errRingChanges
	}
	return outcome == act.Done, nil
}
