package gc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// orphaners is how many owners are worked on at once. Each spreads its dependents
// over a pool of the collector's size.
const orphaners = 2

// passes bounds how often the dependents of one owner are listed live. While
// somebody goes on creating them every list finds some; those after the last one
// are freed as latecomers.
const passes = 5

// attemptToOrphan takes an owner's references out of all its dependents and then
// the finalizer off the owner. The dependents that the graph knows come first;
// before the finalizer goes they are listed live, until a list finds none or there
// have been enough: what an event has not shown yet would otherwise be collected for an owner that said it
// should stay. A resource that cannot be listed makes the owner wait.
func (c *Collector) attemptToOrphan(ctx context.Context, k graph.Key) error {
	v, ok := c.graph.View(k)
	if !ok || v.Resource == nil || !v.Record.Deleting || !v.Record.Orphan {
		c.stuck.forget(k)
		return nil
	}
	owner, err := c.readOrphaning(ctx, v)
	if owner == nil || err != nil {
		return err
	}
	var unserved error
	known := slices.DeleteFunc(c.graph.Dependents(k.UID), func(d graph.Dependent) bool {
		if c.graph.Catalog().Resource(d.Key.Resource) != nil {
			return false
		}
		unserved = fmt.Errorf("%s is not served, and %s of it names the owner", d.Key.Resource, objectName(d.Record))
		return true
	})
	if err := c.free(ctx, k.UID, known); err != nil {
		return fmt.Errorf("orphaning: %w", err)
	}
	for range passes {
		late, err := c.search.dependents(ctx, c, k.UID, v.Record.Namespace)
		if err == nil {
			err = unserved
		}
		if err != nil {
			if !c.giveUpOrphaning(v, err) {
				return fmt.Errorf("orphaning waits, since a resource that may hold dependents cannot be read: %w", err)
			}
			break
		}
		if len(late) == 0 {
			break
		}
		if err := c.free(ctx, k.UID, late); err != nil {
			return fmt.Errorf("orphaning: %w", err)
		}
	}
	for range maxRounds {
		c.orphaned.add(k.UID)
		outcome, err := c.actor.RemoveFinalizer(ctx, owner, metav1.FinalizerOrphanDependents)
		if err != nil {
			return fmt.Errorf("orphaning: %w", err) // it stays remembered: the server may have done it
		}
		if outcome != act.Changed {
			c.stuck.forget(k)
			return nil
		}
		// Listing takes long, and what changes all the time would never be let go if it had
		// to be the owner of before. Its dependents are free whatever else it is now.
		c.orphaned.remove(k.UID)
		if owner, err = c.readOrphaning(ctx, v); owner == nil || err != nil {
			return err
		}
	}
	return errKeepsChanging
}

// readOrphaning reads an owner live. It returns nil if there is nothing left to do: the
// orphaning was called off, or somebody else has ended it.
func (c *Collector) readOrphaning(ctx context.Context, v graph.View) (*act.Object, error) {
	owner, outcome, err := c.actor.Read(ctx, v.Resource.Preferred(), v.Record.Namespace, v.Record.Name)
	if err != nil {
		return nil, fmt.Errorf("orphaning: %w", err)
	}
	if outcome == act.Gone || owner.Metadata.UID != v.Key.UID || !owner.Record().Deleting || !owner.Record().Orphan {
		c.stuck.forget(v.Key)
		return nil, nil
	}
	return owner, nil
}

// giveUpOrphaning says whether an orphaning deletion has waited long enough for
// what cannot be read, and tells the user either way.
func (c *Collector) giveUpOrphaning(v graph.View, err error) bool {
	began, first := c.stuck.since(v.Key, c.now())
	waited := c.now().Sub(began) - c.gate.pausedSince(began, c.now())
	switch {
	case c.orphanTimeout > 0 && waited >= c.orphanTimeout:
		c.warn(v.Resource, v.Record, "OrphaningTimedOut", "The object goes though dependents may not have been found in %s: %v", waited.Round(time.Second), err)
		return true
	case first:
		c.warn(v.Resource, v.Record, "OrphaningWaits", "A resource that may hold dependents cannot be read: %v", err)
	}
	return false
}

// stuck remembers since when orphaning deletions have waited, in time as it
// elapses.
type stuck struct {
	mu    sync.Mutex
	began map[graph.Key]time.Time
}

// since returns since when the object has been known to wait; first is true the
// first time.
func (s *stuck) since(k graph.Key, now time.Time) (began time.Time, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began == nil {
		s.began = map[graph.Key]time.Time{}
	}
	t, known := s.began[k]
	if !known {
		s.began[k] = now
		return now, true
	}
	return t, false
}

func (s *stuck) forget(k graph.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.began, k)
}

// free takes the owner's references out of dependents, several at once.
func (c *Collector) free(ctx context.Context, owner types.UID, dependents []graph.Dependent) error {
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(c.workers)
	for _, d := range dependents {
		pool.Go(func() error { return c.freeOne(ctx, owner, d) })
	}
	return pool.Wait()
}

// freeOne takes the owner's references out of one dependent: all that name its
// UID, right or wrong in the rest.
func (c *Collector) freeOne(ctx context.Context, owner types.UID, d graph.Dependent) error {
	res := c.graph.Catalog().Resource(d.Key.Resource)
	if res == nil {
		return fmt.Errorf("%s is no longer served, and %s of it names the owner", d.Key.Resource, d.Record.Name)
	}
	rec := d.Record
	read := res.Aggregated // such a server may ignore the resourceVersion of a patch
	for range maxRounds {
		if read {
			live, outcome, err := c.actor.Read(ctx, res.Preferred(), rec.Namespace, rec.Name)
			if err != nil {
				return err
			}
			if outcome == act.Gone || live.Metadata.UID != d.Key.UID {
				return nil
			}
			rec = live.Record()
		}
		var drop []graph.Reference
		for _, r := range rec.References {
			if r.UID == owner {
				drop = append(drop, r)
			}
		}
		if len(drop) == 0 {
			return nil
		}
		outcome, err := c.actor.DropReferences(ctx, res.Preferred(), rec, drop)
		if err != nil || outcome != act.Changed {
			return err
		}
		read = true
	}
	return errKeepsChanging
}

// orphaned remembers the owners that were deleted on the terms that their
// dependents stay, for dependents that turn up later. It is bounded: the oldest
// are forgotten.
type orphaned struct {
	once sync.Once
	uids *lru.Cache
}

// remembered is how many such owners are remembered.
const remembered = 10_000

func (o *orphaned) cache() *lru.Cache {
	o.once.Do(func() { o.uids = lru.New(remembered) })
	return o.uids
}

func (o *orphaned) add(uid types.UID)    { o.cache().Add(uid, nil) }
func (o *orphaned) remove(uid types.UID) { o.cache().Remove(uid) }
func (o *orphaned) has(uid types.UID) bool {
	_, ok := o.cache().Get(uid)
	return ok
}
