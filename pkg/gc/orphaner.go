package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// orphaners is how many owners are worked on at once. Each spreads its dependents
	// over a pool of the collector's size.
	orphaners = 2
	// freedPerTurn is how many dependents of one owner are freed before others have
	// their turn.
	freedPerTurn = 500
	// passes bounds how often the dependents of one owner are listed live. While
	// somebody goes on creating them every list finds some; those after the last one
	// are freed as latecomers.
	passes = 5
)

// orphaner takes the references to owners that were deleted with propagation policy
// Orphan out of their dependents, and then lets the owners go.
type orphaner struct {
	graph      *graph.Graph
	actor      *act.Actor
	search     *search
	tombstones *tombstones
	progress   orphanings
	workers    int
	timeout    time.Duration                          // of a wait for what cannot be read; 0 for ever
	paused     func(from, to time.Time) time.Duration // of the time between
	tell       *teller
	now        func() time.Time
	gone       func(graph.Key, *graph.Record) // tells the graph what a live read has found
}

// run removes the references to an owner from all its dependents, and then the finalizer from
// the owner. The dependents that the graph knows come first, a bounded number each turn. Before
// it removes the finalizer, run lists dependents live, until a list finds none or the number of
// passes is used up: a dependent that no event has shown yet would otherwise be collected. If a
// resource cannot be listed, or a dependent cannot be changed, the owner waits.
//
// An object in another namespace than a namespaced owner is no dependent of it, whatever it names: it is left alone, so that no
// other tenant can hold the owner.
func (o *orphaner) run(ctx context.Context, k graph.Key) error {
	v, ok := o.graph.View(k)
	if !ok || v.Resource == nil || !v.Record.Deleting || !v.Record.Orphan {
		o.progress.forget(k)
		return nil
	}
	owner, err := o.read(ctx, v)
	if owner == nil || err != nil {
		return err
	}
	known, unserved := o.served(o.progress.unfreed(k, within(v.Record.Namespace, o.graph.Dependents(k.UID))))
	over := len(known) > freedPerTurn
	if over {
		known = known[:freedPerTurn]
	}
	switch err := o.free(ctx, k, known); {
	case err != nil && !o.goOnWithout(v, err):
		return fmt.Errorf("orphaning: %w", err)
	case err == nil && over:
		return errTurnOver
	}
	for range passes {
		late, err := o.search.dependents(ctx, k.UID, v.Record.Namespace)
		if err == nil {
			err = unserved
		}
		if err != nil {
			if !o.giveUp(v, err) {
				return fmt.Errorf("orphaning waits, since a resource that may hold dependents cannot be read: %w", err)
			}
			break
		}
		if len(late) == 0 {
			break
		}
		if err := o.free(ctx, k, late); err != nil {
			if !o.goOnWithout(v, err) {
				return fmt.Errorf("orphaning: %w", err)
			}
			break
		}
	}
	return o.letGo(ctx, v, owner)
}

// within returns those objects that are in a namespace or in none; of no namespace all.
func within(namespace string, objects []graph.Node) []graph.Node {
	return slices.DeleteFunc(objects, func(n graph.Node) bool { return n.Record.Elsewhere(namespace) })
}

// served returns the dependents that can be reached; err names one that cannot, if there
// is any.
func (o *orphaner) served(dependents []graph.Node) (served []graph.Node, err error) {
	catalog := o.graph.Catalog()
	for _, d := range dependents {
		if catalog.Resource(d.Key.Resource) != nil {
			served = append(served, d)
		} else {
			err = fmt.Errorf("%s is not served, and %s of it names the owner", d.Key.Resource, objectName(d.Record))
		}
	}
	return served, err
}

// letGo takes the finalizer off an owner whose dependents are free.
func (o *orphaner) letGo(ctx context.Context, v graph.View, owner *act.Object) error {
	namespace, uid := v.Record.Namespace, v.Key.UID
	for range maxRounds {
		o.tombstones.add(namespace, uid)
		outcome, err := o.actor.RemoveFinalizer(ctx, owner, metav1.FinalizerOrphanDependents)
		if err != nil {
			return fmt.Errorf("orphaning: %w", err) // it stays remembered: the server may have done it
		}
		if outcome != act.Changed {
			o.progress.forget(v.Key)
			return nil
		}
		// Listing takes long, and what changes all the time would never be let go if it had
		// to be the owner of before. Its dependents are free whatever else it is now.
		o.tombstones.remove(namespace, uid)
		if owner, err = o.read(ctx, v); owner == nil || err != nil {
			return err
		}
	}
	return errKeepsChanging
}

// read reads an owner live. It returns nil if there is nothing left to do: the
// orphaning was called off, or somebody else has ended it.
func (o *orphaner) read(ctx context.Context, v graph.View) (*act.Object, error) {
	owner, is, err := o.actor.Read(ctx, v.Resource.Preferred(), v.Record.Namespace, v.Record.Name, v.Key.UID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("orphaning: %w", err)
	case is == act.Absent:
		o.gone(v.Key, v.Record)
	case owner.Record().Deleting && owner.Record().Orphan:
		return owner, nil
	}
	o.progress.forget(v.Key)
	return nil, nil
}

// errRefused is the error of dependents that the API server refuses to change.
var errRefused = errors.New("the API server refuses to change dependents")

// goOnWithout returns true if an orphaning deletion has waited long enough for dependents that the API server refuses to change.
func (o *orphaner) goOnWithout(v graph.View, err error) bool {
	return errors.Is(err, errRefused) && o.giveUp(v, err)
}

// giveUp returns true if an orphaning deletion has waited long enough for resources that
// cannot be read, or for dependents that cannot be changed. It tells the user either way.
func (o *orphaner) giveUp(v graph.View, err error) bool {
	began, first := o.progress.stuckSince(v.Key, o.now())
	waited := o.now().Sub(began) - o.paused(began, o.now())
	switch {
	case o.timeout > 0 && waited >= o.timeout:
		o.tell.warn(v.Resource, v.Record, orphaningTimedOut, "The object is deleted though dependents may still name it after %s: %v", waited.Round(time.Second), err)
		return true
	case first:
		o.tell.warn(v.Resource, v.Record, orphaningWaits, "Some dependents cannot be found or freed: %v", err)
	}
	return false
}

// free takes the owner's references out of dependents, several at once. A dependent that the API server refuses to change
// (errRefused) keeps no other from being freed.
func (o *orphaner) free(ctx context.Context, owner graph.Key, dependents []graph.Node) error {
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(o.workers)
	var refused atomic.Pointer[error]
	for _, d := range dependents {
		pool.Go(func() error {
			err := o.freeOne(ctx, owner.UID, d)
			switch {
			case err == nil:
				o.progress.freed(owner, d)
			case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
				refused.Store(&err)
				return nil
			}
			return err
		})
	}
	if err := pool.Wait(); err != nil {
		return err
	}
	if err := refused.Load(); err != nil {
		return fmt.Errorf("%w: %w", errRefused, *err)
	}
	return nil
}

// freeOne takes the owner's references out of one dependent: all that name its
// UID, right or wrong in the rest.
func (o *orphaner) freeOne(ctx context.Context, owner types.UID, d graph.Node) error {
	res := o.graph.Catalog().Resource(d.Key.Resource)
	if res == nil {
		return fmt.Errorf("%s is no longer served, and %s of it names the owner", d.Key.Resource, d.Record.Name)
	}
	rec := d.Record
	read := res.Aggregated // such a server may ignore the resourceVersion of a patch
	for range maxRounds {
		if read {
			live, is, err := o.actor.Read(ctx, res.Preferred(), rec.Namespace, rec.Name, d.Key.UID)
			switch {
			case err != nil:
				return err
			case is == act.Absent:
				o.gone(d.Key, rec)
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
		outcome, err := o.actor.DropReferences(ctx, res.Preferred(), rec, drop)
		if err != nil || outcome != act.Changed {
			return err
		}
		read = true
	}
	return errKeepsChanging
}
