package gc

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// maxRounds bounds how often one attempt decides again because the object
// changed under its hands. Each round costs a read and a write at the most.
const maxRounds = 8

var (
	errKeepsChanging = errors.New("the object changes faster than it can be decided about")
	// errPutAside ends an attempt that needs an owner which another attempt is reading:
	// that one puts the object into the queue again. It is neither success nor failure.
	errPutAside = errors.New("another attempt is reading an owner")
)

// attempt is one go at one object.
type attempt struct {
	c    *Collector
	view graph.View
	// live is the object as this attempt has read it; nil while the graph's record
	// is good enough.
	live *act.Object
	// proved is what this attempt has verified. The graph keeps it too, for as long
	// as it knows of the reference; a live read can show one that it does not know.
	proved map[ownerPlace]graph.Fact
	// behind is what this attempt has read of the object's controller.
	behind bool
}

type ownerPlace struct {
	uid types.UID
	at  graph.Coordinates
}

// attemptToDelete decides about an object and does what was decided, until there
// is nothing left to do. again is when to come back without being asked; zero for
// never. An error keeps the object.
func (c *Collector) attemptToDelete(ctx context.Context, k graph.Key) (again time.Time, err error) {
	v, ok := c.graph.View(k)
	if !ok {
		c.deadlines.forget(k)
		return time.Time{}, nil // gone already
	}
	if v.Resource == nil {
		return time.Time{}, nil // no longer served; its monitor is about to end
	}
	a := &attempt{c: c, view: v, proved: map[ownerPlace]graph.Fact{}}
	a.complete()
	for range maxRounds {
		d := decide.Decide(&a.view, c.now())
		var done bool
		switch d.Action {
		case decide.Nothing:
			done = true
		case decide.Confirm:
			done, err = a.confirm(ctx)
		case decide.Orphan:
			c.orphans.Add(k)
			done = true
		case decide.Release:
			done, err = a.release(ctx, d)
		case decide.Verify:
			err = a.verify(ctx, d.Verify)
		case decide.Delete:
			done, err = a.delete(ctx, d)
		case decide.Drop:
			done, err = a.drop(ctx, d)
		}
		if err != nil {
			return time.Time{}, err
		}
		if done {
			a.warnOfWrongNamespaces()
			countDecision(d.Reason)
			return d.Again, nil
		}
	}
	return time.Time{}, errKeepsChanging
}

// gvr is where the object's own resource is reached.
func (a *attempt) gvr() schema.GroupVersionResource { return a.view.Resource.Preferred() }

// verify reads owners live and looks at the object again in that light. An owner
// that another attempt is reading at the moment is not waited for, which would hold
// a worker: the object comes back when that read has ended.
func (a *attempt) verify(ctx context.Context, owners []graph.OwnerView) error {
	for _, o := range owners {
		r := ownerRead{uid: o.Reference.UID, apiVersion: o.Reference.APIVersion, at: o.At}
		if !a.c.reads.begin(r, a.view.Key) {
			return errPutAside
		}
		fact, err := a.c.actor.Verify(ctx, o, a.c.now())
		if err == nil {
			a.proved[ownerPlace{o.Reference.UID, o.At}] = fact
			a.c.graph.Learn(o.Reference.UID, o.At, fact)
		}
		for _, k := range a.c.reads.end(r) {
			if err == nil {
				a.c.queue.Add(k)
			} else {
				a.c.queue.retry(k, err) // it would fail as well
			}
		}
		if err != nil {
			return err
		}
	}
	return a.look()
}

// look renews the view: of the object as the graph has it, or as it was read.
func (a *attempt) look() error {
	if a.live != nil {
		a.view = a.c.graph.ViewOf(a.view.Key.Resource, a.live.Record())
	} else if v, ok := a.c.graph.View(a.view.Key); ok {
		a.view = v
	}
	if a.view.Resource == nil {
		return errors.New("the object's resource is no longer served")
	}
	a.complete()
	return nil
}

// complete adds to the view what the graph does not know.
func (a *attempt) complete() {
	if a.view.Record.WaitingForDependents() {
		a.view.Synced = a.c.settled()
		a.view.Behind = a.behind
		a.view.WaitingSince = a.c.graph.WaitingSince(a.view.Key, a.c.now())
		if a.view.Blocker != nil {
			a.view.Deadline = a.c.deadlines.of(a.view.Key, a.view.Record, a.c.now())
		}
	}
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		if f, ok := a.proved[ownerPlace{o.Reference.UID, o.At}]; ok {
			o.Fact = f
		}
		// A monitor may lag behind a live read that has found the owner gone.
		o.Orphaned = (o.Observed == nil || o.Fact.Proved()) && a.c.orphaned.has(o.Reference.UID)
	}
}

// read reads the object live, so that the next decision is about what is really
// there. done is true if there is nothing left to decide: it does not exist any
// more, or somebody has deleted it, and the event of that will be looked at.
func (a *attempt) read(ctx context.Context) (done bool, err error) {
	live, outcome, err := a.c.actor.Read(ctx, a.gvr(), a.view.Record.Namespace, a.view.Record.Name)
	switch {
	case err != nil:
		return false, err
	case outcome == act.Gone || live.Metadata.UID != a.view.Key.UID || live.Metadata.DeletionTimestamp != nil:
		return true, nil
	}
	a.live = live
	return false, a.look()
}

// confirm reads an object live that no monitor shows any more, and tells the graph
// what became of it.
func (a *attempt) confirm(ctx context.Context) (done bool, err error) {
	k, rec := a.view.Key, a.view.Record
	live, outcome, err := a.c.actor.Read(ctx, a.gvr(), rec.Namespace, rec.Name)
	switch {
	case err != nil:
		return false, err
	case outcome == act.Gone || live.Metadata.UID != k.UID:
		a.c.consider(a.c.graph.Deleted(k.Resource, rec, a.c.now()))
	default:
		if v, ok := a.c.graph.View(k); ok && v.Unsure {
			// It is there and its monitor does not show it: nor would it show its end.
			a.c.observer.Relist(k.Resource)
		}
		a.c.consider(a.c.graph.Confirm(k, live.Record(), a.c.now()))
		a.c.queue.Add(k)
	}
	return true, nil
}

// release takes the finalizer off an object in foreground deletion that nothing
// blocks any more, unless its controller may still be creating dependents.
func (a *attempt) release(ctx context.Context, d decide.Decision) (done bool, err error) {
	var blockers []graph.Dependent
	if d.Reason == decide.TimedOut {
		blockers = a.c.graph.Blockers(a.view.Key) // of an object that does not wait there are none
	}
	live, outcome, err := a.c.actor.ReadStatus(ctx, a.gvr(), a.view.Record.Namespace, a.view.Record.Name)
	switch {
	case err != nil:
		return false, err
	case outcome == act.Gone || live.Metadata.UID != a.view.Key.UID || !live.Record().WaitingForDependents():
		return true, nil // somebody else has ended the wait
	case live.Behind && d.Reason != decide.TimedOut && !a.behind:
		a.behind = true
		return false, a.look()
	}
	outcome, err = a.c.actor.RemoveFinalizer(ctx, live, metav1.FinalizerDeleteDependents)
	switch {
	case err != nil:
		return false, err
	case outcome == act.Changed:
		return false, a.look()
	}
	a.c.deadlines.forget(a.view.Key)
	switch {
	case outcome == act.Done && len(blockers) > 0:
		a.warnOfTimeout(blockers)
	case outcome == act.Done:
		a.log(d).Debug("ended the foreground deletion of an object that nothing blocks")
	}
	return true, nil
}

// delete deletes the object.
func (a *attempt) delete(ctx context.Context, d decide.Decision) (done bool, err error) {
	outcome, done, err := a.write(ctx, func() (act.Outcome, error) {
		return a.c.actor.Delete(ctx, a.gvr(), a.view.Record, d.Policy)
	})
	if outcome == act.Done {
		a.c.collected.add(a.view.Key.Resource, d.Policy)
		a.c.deleted.Add(1)
		a.log(d).WithField("policy", string(d.Policy)).Debug("deleted an object that no owner keeps")
	}
	return done, err
}

// drop removes references from the object.
func (a *attempt) drop(ctx context.Context, d decide.Decision) (done bool, err error) {
	outcome, done, err := a.write(ctx, func() (act.Outcome, error) {
		return a.c.actor.DropReferences(ctx, a.gvr(), a.view.Record, d.Drop)
	})
	if outcome == act.Done {
		a.log(d).WithField("references", len(d.Drop)).Debug("dropped references to owners that are gone or going")
	}
	return done, err
}

// write writes to the object as it was decided on. An aggregated server may ignore
// preconditions, so there the object is read first. done is false if it has to be
// decided again, about what is there now.
func (a *attempt) write(ctx context.Context, call func() (act.Outcome, error)) (outcome act.Outcome, done bool, err error) {
	if !a.view.Resource.Aggregated || a.live != nil {
		outcome, err = call()
		if err != nil || outcome != act.Changed {
			return outcome, err == nil, err
		}
	}
	done, err = a.read(ctx)
	return act.Changed, done, err
}

func (a *attempt) log(d decide.Decision) *logrus.Entry {
	return a.c.log.WithFields(logrus.Fields{
		"resource": a.view.Key.Resource.String(),
		"object":   objectName(a.view.Record),
		"uid":      string(a.view.Key.UID),
		"reason":   string(d.Reason),
	})
}
