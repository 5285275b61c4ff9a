package gc

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// attempts decide about objects and carry the decisions out.
type attempts struct {
	graph      *graph.Graph
	actor      *act.Actor
	queue      *queue // of attempts
	orphans    *queue // of owners whose dependents are to stay
	verifier   *verifier
	tombstones *tombstones
	relist     func(schema.GroupResource)
	options    func() decide.Options
	guard      *guard
	tally      *tally
	cascades   *cascades
	tell       *teller
	now        func() time.Time
	log        *logrus.Entry
}

// attempt is one turn of one object.
type attempt struct {
	*attempts
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

// run decides about an object and carries the decision out, until nothing is left to do or the
// turn is over. again is when to look at the object again without an event; zero: never. After
// an error the object stays, and is tried again.
func (s *attempts) run(ctx context.Context, k graph.Key) (again time.Time, err error) {
	v, ok := s.graph.View(k)
	if !ok || v.Resource == nil {
		return time.Time{}, nil // gone already, or not served at the moment
	}
	a := s.about(v)
	rounds := maxRounds
	if len(v.Owners) > heavy {
		rounds = maxHeavyRounds
	}
	for range rounds {
		d := decide.From(s.graph, &a.view, s.options(), s.now())
		var done bool
		switch d.Action {
		case decide.Nothing:
			done = true
		case decide.Confirm:
			done, err = a.confirm(ctx)
		case decide.Orphan:
			s.orphans.Add(k)
			done = true
		case decide.Release:
			done, err = a.release(ctx, d)
		case decide.Verify:
			err = a.verify(ctx, d)
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

// about begins an attempt.
func (s *attempts) about(v graph.View) *attempt {
	a := &attempt{attempts: s, view: v}
	a.complete()
	return a
}

// gvr is where the object's own resource is reached.
func (a *attempt) gvr() schema.GroupVersionResource { return a.view.Resource.Preferred() }

// verify reads owners live and updates the view with the results. If more are left to read,
// the turn is over.
func (a *attempt) verify(ctx context.Context, d decide.Decision) error {
	read, err := a.verifier.verify(ctx, a.view.Key, d.Verify)
	if a.proved == nil {
		a.proved = make(map[ownerPlace]graph.Fact, len(read))
	}
	for place, fact := range read {
		a.proved[place] = fact
	}
	switch {
	case err != nil:
		return err
	case d.Unverified > 0:
		return errTurnOver
	}
	return a.renew()
}

// renew builds a new view of the object, as the graph has it or as it was read live.
func (a *attempt) renew() error {
	if a.live != nil {
		a.view = a.graph.ViewOf(a.view.Key.Resource, a.live.Record())
	} else if v, ok := a.graph.View(a.view.Key); ok {
		a.view = v
	}
	if a.view.Resource == nil {
		return errors.New("the object's resource is no longer served")
	}
	a.complete()
	return nil
}

// complete adds the facts that only live reads and tombstones provide.
func (a *attempt) complete() {
	a.view.Behind = a.behind
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		if f, ok := a.proved[ownerPlace{o.Reference.UID, o.At}]; ok {
			o.Fact = f
		}
		// A monitor may lag behind a live read that has found the owner gone.
		o.Orphaned = (o.Observed == nil || o.Fact.Proved()) && a.tombstones.has(o.Reference.UID)
	}
}

// read reads the object live, so that the next decision is made on its present state. done is
// true if nothing is left to decide: the object is gone, or somebody has deleted it and the
// event of that will follow.
func (a *attempt) read(ctx context.Context) (done bool, err error) {
	live, is, err := a.actor.Read(ctx, a.gvr(), a.view.Record.Namespace, a.view.Record.Name, a.view.Key.UID)
	switch {
	case err != nil:
		return false, err
	case is == act.Absent:
		a.gone()
		return true, nil
	case live.Metadata.DeletionTimestamp != nil:
		return true, nil
	}
	a.live = live
	return false, a.renew()
}

// gone tells the graph that the object does not exist: its monitor may never show that.
func (a *attempt) gone() {
	a.guard.notSeen(a.view.Record)
	a.queue.enqueue(a.graph.Deleted(a.view.Key.Resource, a.view.Record, a.now()))
}

// confirm reads an object live that its monitor no longer shows, and tells the graph the
// result.
func (a *attempt) confirm(ctx context.Context) (done bool, err error) {
	k, rec := a.view.Key, a.view.Record
	live, is, err := a.actor.Read(ctx, a.gvr(), rec.Namespace, rec.Name, k.UID)
	switch {
	case err != nil:
		return false, err
	case is == act.Absent:
		a.gone()
	default:
		if v, ok := a.graph.View(k); ok && v.Missing {
			// It is there and its monitor does not show it: nor would it show its end.
			a.relist(k.Resource)
		}
		a.queue.enqueue(a.graph.Confirm(k, live.Record(), a.now()))
		a.queue.Add(k)
	}
	return true, nil
}

// release takes the finalizer off an object in foreground deletion that nothing
// blocks any more, unless its controller may still be creating dependents.
func (a *attempt) release(ctx context.Context, d decide.Decision) (done bool, err error) {
	timedOut, blocking := d.Reason == decide.TimedOut, a.view.Blocking
	var blockers []graph.Node
	if timedOut {
		blockers = a.graph.Blockers(a.view.Key, namedObjects)
	}
	live, is, err := a.actor.ReadStatus(ctx, a.gvr(), a.view.Record.Namespace, a.view.Record.Name, a.view.Key.UID)
	switch {
	case err != nil:
		return false, err
	case is == act.Absent:
		a.gone()
		return true, nil
	case !live.Record().WaitingForDependents():
		return true, nil // somebody else has ended the wait
	case live.Behind && !timedOut && !a.behind:
		a.behind = true
		return false, a.renew()
	}
	outcome, err := a.actor.RemoveFinalizer(ctx, live, metav1.FinalizerDeleteDependents)
	switch {
	case err != nil:
		return false, err
	case outcome == act.Changed:
		return false, a.renew()
	case outcome == act.Done && timedOut:
		a.warnOfTimeout(blockers, blocking)
	case outcome == act.Done:
		a.logged(d).Debug("ended the foreground deletion of an object that nothing blocks")
	}
	return true, nil
}

// warnOfTimeout tells users that a foreground deletion has timed out, and what still blocked
// it.
func (a *attempt) warnOfTimeout(blockers []graph.Node, blocking int) {
	countTimeout()
	if blocking == 0 {
		a.tell.warn(a.view.Resource, a.view.Record, deletionTimedOut,
			"The object is deleted though resources that may hold dependents of it have not been listed")
		return
	}
	a.tell.warn(a.view.Resource, a.view.Record, deletionTimedOut,
		"The object is deleted before its dependents: %d still blocked its foreground deletion (%s)", blocking, names(blockers, blocking, a.view.Record.Namespace))
}

// delete deletes the object.
func (a *attempt) delete(ctx context.Context, d decide.Decision) (done bool, err error) {
	outcome, done, err := a.write(ctx, func() (act.Outcome, error) {
		return a.guard.delete(&a.view, func() (act.Outcome, error) {
			return a.actor.Delete(ctx, a.gvr(), a.view.Record, act.Deletion{Policy: d.Policy, Aggregated: a.view.Resource.Aggregated})
		})
	})
	if outcome == act.Done {
		a.tally.add(a.view.Key.Resource, d.Policy)
		a.cascades.collected(a.graph, &a.view, a.now())
		a.logged(d).WithField("policy", string(d.Policy)).Debug("deleted an object that no owner keeps")
	}
	return done, err
}

// drop removes references from the object.
func (a *attempt) drop(ctx context.Context, d decide.Decision) (done bool, err error) {
	outcome, done, err := a.write(ctx, func() (act.Outcome, error) {
		return a.actor.DropReferences(ctx, a.gvr(), a.view.Record, d.Drop)
	})
	if outcome == act.Done {
		a.logged(d).WithField("references", len(d.Drop)).Debug("dropped references to owners that are gone or going")
	}
	return done, err
}

// write writes to the version of the object that the decision was made on. An aggregated server
// may ignore preconditions, so its objects are read first. done is false if the object has
// changed and has to be decided about again.
func (a *attempt) write(ctx context.Context, call func() (act.Outcome, error)) (outcome act.Outcome, done bool, err error) {
	if !a.view.Resource.Aggregated || a.live != nil {
		outcome, err = call()
		if outcome == act.Gone {
			a.gone()
		}
		if err != nil || outcome != act.Changed {
			return outcome, err == nil, err
		}
	}
	done, err = a.read(ctx)
	return act.Changed, done, err
}

// warnOfWrongNamespaces tells users, once, of references that can never be right:
// a cluster-scoped object names an owner of a namespaced kind, or the owner lives
// in another namespace than its dependent.
func (a *attempt) warnOfWrongNamespaces() {
	told := 0
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		if o.Resource == nil || !o.Resource.Namespaced || a.view.Record.Namespace != "" && !o.Elsewhere {
			continue
		}
		if told++; told > namedObjects {
			return // an object with thousands of them is told about the first
		}
		// The texts are cut, as whoever wrote the reference chose them.
		a.tell.once(a.view.Resource, a.view.Record, o.Reference, ownerInWrongNamespace, "ownerRef [%.300s/%.100s, name: %.300s, uid: %.100s] does not exist in namespace %q",
			o.Reference.APIVersion, o.Reference.Kind, o.Reference.Name, o.Reference.UID, a.view.Record.Namespace)
	}
}

func (a *attempt) logged(d decide.Decision) *logrus.Entry {
	return a.log.WithFields(logrus.Fields{
		"resource": a.view.Key.Resource.String(),
		"object":   objectName(a.view.Record),
		"uid":      string(a.view.Key.UID),
		"reason":   string(d.Reason),
	})
}
