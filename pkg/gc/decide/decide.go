// Package decide says what the collector should do about one object.
//
// Decide is a plain function of what the graph knows, the time and nothing else:
// it does no I/O and reads no clock, so that the workers, `reap plan` and
// `reap why` share one decision, and tests can try millions of them.
//
// The rule that everything else serves: an object is deleted only if it has at
// least one ownerReference and every one of them names an owner that is proved not
// to exist, or that was just read live and waits for this very object to go.
// Whatever is not proved keeps the object.
package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// SettleFor is how long the graph is given to show dependents of an object whose
// foreground deletion has just become known: one may be on its way.
const SettleFor = 250 * time.Millisecond

// ObserveFor bounds how long an object in foreground deletion is kept for its
// controller, which has not yet seen what was asked of it and may be creating
// dependents. Some controllers never tell: they go quiet while their object is being
// deleted, or do not exist any more.
const ObserveFor = 10 * time.Second

// syncAgain is when to decide again while resources are still being listed.
const syncAgain = time.Second

// VerifyAtOnce bounds the live reads that one decision asks for. An object may name
// thousands of owners, and others want their turn.
const VerifyAtOnce = 50

// Action is what should be done.
type Action uint8

const (
	// Nothing: the object stays as it is.
	Nothing Action = iota
	// Verify: read the owners in Decision.Verify live, tell the graph, decide again.
	Verify
	// Confirm: read the object itself live and tell the graph what that shows.
	Confirm
	// Delete the object, with Decision.Policy and the preconditions.
	Delete
	// Drop the references in Decision.Drop from the object.
	Drop
	// Orphan: drop the references of all dependents, then the object's finalizer.
	Orphan
	// Release: take the finalizer foregroundDeletion off the object.
	Release
	// Survey: set View.Survey and decide again.
	Survey
)

func (a Action) String() string {
	return [...]string{"nothing", "verify", "confirm", "delete", "drop", "orphan", "release", "survey"}[a]
}

// Reason says why, as a bounded set of words that metrics and logs share.
type Reason string

const (
	NoReferences      Reason = "no-references"       // it has no owner to lose
	BeingDeleted      Reason = "being-deleted"       // somebody has deleted it already
	OwnerSolid        Reason = "owner-solid"         // an owner exists
	OwnerUnknown      Reason = "owner-unknown"       // an owner's kind cannot be resolved
	OwnerInvalid      Reason = "owner-invalid"       // an owner cannot be named that way
	OwnerUnverified   Reason = "owner-unverified"    // an owner has to be read live
	Missing           Reason = "unverified"          // no monitor shows the object any more; it has to be read live
	OwnersDangling    Reason = "owners-dangling"     // every owner is proved absent
	OwnerWaiting      Reason = "owner-waiting"       // no owner stays, and one waits for its dependents
	SomeDangling      Reason = "some-dangling"       // an owner exists, others are absent or waiting
	OwnerOrphaned     Reason = "owner-orphaned"      // an owner was deleted with propagation policy Orphan
	Orphaning         Reason = "orphaning"           // it is deleted and its dependents are to stay
	WaitsForDependent Reason = "waits-for-dependent" // it is in foreground deletion and a dependent blocks it
	Settling          Reason = "settling"            // it is in foreground deletion and dependents may be on their way
	ControllerBehind  Reason = "controller-behind"   // it is in foreground deletion and its controller may be creating dependents
	TimedOut          Reason = "timed-out"           // it is in foreground deletion and has waited long enough
	NothingBlocks     Reason = "nothing-blocks"      // it is in foreground deletion and no dependent blocks it
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{
		NoReferences, BeingDeleted, OwnerSolid, OwnerUnknown, OwnerInvalid, OwnerUnverified, Missing, OwnersDangling, OwnerWaiting,
		SomeDangling, OwnerOrphaned, Orphaning, WaitsForDependent, Settling, ControllerBehind, TimedOut, NothingBlocks,
	}
}

// Decision is what should be done about an object, and why.
type Decision struct {
	Action Action
	Reason Reason
	// Verify holds owners to read live, VerifyAtOnce at the most, and Unverified counts
	// those beyond; set for Verify.
	Verify     []graph.OwnerView
	Unverified int
	// Policy is the propagation policy; set for Delete.
	Policy metav1.DeletionPropagation
	// Drop holds references that are to go, as whole values; set for Drop.
	Drop []graph.Reference
	// Again is when to decide again though nothing happened; zero for never.
	Again time.Time
}

// Decide says what should be done about the object in the view at the time now.
func Decide(v *graph.View, o Options, now time.Time) Decision {
	switch r := v.Record; {
	case v.Missing:
		return Decision{Action: Confirm, Reason: Missing}
	case r.Deleting && r.Orphan:
		return Decision{Action: Orphan, Reason: Orphaning}
	case r.WaitingForDependents():
		return release(v, o, now)
	case r.Deleting:
		return Decision{Reason: BeingDeleted}
	case len(v.Owners) == 0:
		return Decision{Reason: NoReferences}
	}
	return collect(v, now)
}

// From is Decide for an object in a graph, which is surveyed if need be; the view gets
// the survey.
func From(g *graph.Graph, v *graph.View, o Options, now time.Time) Decision {
	d := Decide(v, o, now)
	if d.Action != Survey {
		return d
	}
	s, _ := g.Survey(v.Key) // of an object that has gone meanwhile, nothing is below
	v.Survey = &s
	return Decide(v, o, now)
}

// release decides about an object in foreground deletion.
func release(v *graph.View, o Options, now time.Time) Decision {
	hold := func(r Reason, again time.Time) Decision {
		deadline, survey := Deadline(v, o, now)
		switch {
		case survey:
			return Decision{Action: Survey, Reason: r}
		case deadline.IsZero():
			return Decision{Reason: r, Again: again}
		case !now.Before(deadline):
			return Decision{Action: Release, Reason: TimedOut}
		case again.IsZero() || deadline.Before(again):
			again = deadline
		}
		return Decision{Reason: r, Again: again}
	}
	known := v.Wait.Since
	if v.SyncedSince.After(known) {
		known = v.SyncedSince
	}
	settled, observed := known.Add(SettleFor), v.Wait.Since.Add(ObserveFor)
	switch {
	case v.Blocking > 0:
		return hold(WaitsForDependent, time.Time{})
	case v.SyncedSince.IsZero() || v.Wait.Since.IsZero():
		return hold(Settling, now.Add(syncAgain))
	case now.Before(settled):
		return Decision{Reason: Settling, Again: settled}
	case v.Behind && now.Before(observed):
		return Decision{Reason: ControllerBehind, Again: observed}
	}
	return Decision{Action: Release, Reason: NothingBlocks}
}

// collect decides about an object that nobody has deleted, by its owners.
func collect(v *graph.View, now time.Time) Decision {
	var (
		verify []graph.OwnerView // the first of those that are not verified
		drop   []graph.Reference // what goes if the object stays for another owner
		freed  []graph.Reference // what goes in any case
		again  time.Time
		count  [Invalid + 1]int
	)
	for i := range v.Owners {
		o := &v.Owners[i]
		s := Judge(o, v.Record.Namespace, now)
		count[s]++
		switch s {
		case Unverified:
			if len(verify) < VerifyAtOnce {
				verify = append(verify, *o)
			}
		case Dangling, Waiting:
			drop = append(drop, o.Reference)
		case Orphaned:
			freed = append(freed, o.Reference)
		case Solid:
			if o.Observed == nil || o.Observed.WaitingForDependents() {
				// The judgement rests on a read. Perhaps no event will ever contradict it.
				if t := believedUntil(o); again.IsZero() || t.Before(again) {
					again = t
				}
			}
		}
	}
	more := count[Unverified] - len(verify)
	switch {
	case count[Solid] > 0 && len(drop) > 0 && more > 0:
		// The object stays, whatever the others are. An owner that waits now may have called
		// that off by the time all of them have been read.
		return Decision{Action: Drop, Reason: SomeDangling, Drop: drop, Again: again}
	case count[Unverified] > 0:
		return Decision{Action: Verify, Reason: OwnerUnverified, Verify: verify, Unverified: more}
	case len(freed) > 0:
		// What was left behind on purpose stays; once free of that owner it is judged
		// by the others alone, and without any it is nobody's.
		return Decision{Action: Drop, Reason: OwnerOrphaned, Drop: freed}
	case count[Solid] > 0 && len(drop) > 0:
		return Decision{Action: Drop, Reason: SomeDangling, Drop: drop, Again: again}
	case count[Solid] > 0:
		return Decision{Reason: OwnerSolid, Again: again}
	case count[Invalid] > 0:
		return Decision{Reason: OwnerInvalid}
	case count[Unknown] > 0:
		return Decision{Reason: OwnerUnknown}
	case count[Waiting] > 0 && v.HasDependents:
		return Decision{Action: Delete, Reason: OwnerWaiting, Policy: metav1.DeletePropagationForeground}
	case count[Waiting] > 0:
		return Decision{Action: Delete, Reason: OwnerWaiting, Policy: policy(v.Record)}
	}
	return Decision{Action: Delete, Reason: OwnersDangling, Policy: policy(v.Record)}
}

// policy honours a garbage collection finalizer that the object carries already:
// somebody asked for that kind of deletion.
func policy(r *graph.Record) metav1.DeletionPropagation {
	switch {
	case r.Orphan:
		return metav1.DeletePropagationOrphan
	case r.Foreground:
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
