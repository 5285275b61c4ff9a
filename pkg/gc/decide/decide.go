// Package decide says what the collector should do about one object.
//
// Decide is a plain function of what the graph knows, the time and nothing else:
// it does no I/O and reads no clock, so that the workers, `reap plan` and
// `reap why` share one decision, and tests can try millions of them.
//
// The rule that everything else serves: an object is deleted only if it has at
// least one ownerReference and every one of them is proved to name an owner that
// does not exist. Whatever is not proved keeps the object.
package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// RecheckAfter is how long a live read that found an owner which no monitor shows
// is believed. Nothing else would tell that such an owner has gone.
const RecheckAfter = 15 * time.Minute

// State is the judgement of one reference.
type State uint8

const (
	// Unverified: nobody knows whether the owner exists; a live read will tell.
	Unverified State = iota
	// Solid: the owner exists, where the reference says.
	Solid
	// Dangling: the owner is proved not to exist.
	Dangling
	// Unknown: no server serves the reference's kind, so nothing can be proved.
	Unknown
	// Invalid: a cluster-scoped object names an owner of a namespaced kind; the
	// owner's namespace cannot be known.
	Invalid
)

func (s State) String() string {
	return [...]string{"unverified", "solid", "dangling", "unknown", "invalid"}[s]
}

// Judge says what is known of the owner that a reference names. namespace is that
// of the object with the reference.
func Judge(o *graph.OwnerView, namespace string, now time.Time) State {
	switch {
	case o.Resource == nil && o.KindServed:
		// The kind is served, this version of it is not.
		return Unknown
	case o.Resource == nil:
		if o.Fact.State == graph.Gone {
			return Dangling
		}
		return Unknown
	case o.Resource.Namespaced && namespace == "":
		return Invalid
	case o.Observed != nil:
		return Solid
	case o.Fact.Proved():
		return Dangling
	case o.Fact.State == graph.Present && now.Before(o.Fact.Seen.Add(RecheckAfter)):
		return Solid
	}
	return Unverified
}

// Action is what should be done.
type Action uint8

const (
	// Nothing: the object stays as it is.
	Nothing Action = iota
	// Verify: read the owners in Decision.Verify live, tell the graph, decide again.
	Verify
	// Delete the object, with Decision.Policy and the preconditions.
	Delete
	// Drop the references in Decision.Drop from the object.
	Drop
)

func (a Action) String() string { return [...]string{"nothing", "verify", "delete", "drop"}[a] }

// Reason says why, as a bounded set of words that metrics and logs share.
type Reason string

const (
	NoReferences   Reason = "no-references"    // it has no owner to lose
	BeingDeleted   Reason = "being-deleted"    // somebody has deleted it already
	OwnerSolid     Reason = "owner-solid"      // an owner exists
	OwnerUnknown   Reason = "owner-unknown"    // an owner's kind cannot be resolved
	OwnerInvalid   Reason = "owner-invalid"    // an owner cannot be named that way
	OwnerUnsure    Reason = "owner-unverified" // an owner has to be read live
	OwnersDangling Reason = "owners-dangling"  // every owner is proved absent
	SomeDangling   Reason = "some-dangling"    // an owner exists, others are proved absent
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{NoReferences, BeingDeleted, OwnerSolid, OwnerUnknown, OwnerInvalid, OwnerUnsure, OwnersDangling, SomeDangling}
}

// Decision is what should be done about an object, and why.
type Decision struct {
	Action Action
	Reason Reason
	// Verify holds the owners to read live; set for Verify.
	Verify []graph.OwnerView
	// Policy is the propagation policy; set for Delete.
	Policy metav1.DeletionPropagation
	// Drop holds references that are to go, as whole values; set for Drop.
	Drop []graph.Reference
	// Again is when to decide again though nothing happened; zero for never.
	Again time.Time
}

// Decide says what should be done about the object in the view at the time now.
func Decide(v *graph.View, now time.Time) Decision {
	if len(v.Owners) == 0 {
		return Decision{Reason: NoReferences}
	}
	if v.Record.Deleting {
		return Decision{Reason: BeingDeleted}
	}
	var (
		d        Decision
		dangling []graph.Reference
		count    [Invalid + 1]int
	)
	for i := range v.Owners {
		o := &v.Owners[i]
		s := Judge(o, v.Record.Namespace, now)
		count[s]++
		switch s {
		case Unverified:
			d.Verify = append(d.Verify, *o)
		case Dangling:
			dangling = append(dangling, o.Reference)
		case Solid:
			if o.Observed == nil {
				if t := o.Fact.Seen.Add(RecheckAfter); d.Again.IsZero() || t.Before(d.Again) {
					d.Again = t
				}
			}
		}
	}
	switch {
	case count[Unverified] > 0:
		d.Action, d.Reason = Verify, OwnerUnsure
		d.Again = time.Time{}
	case count[Solid] > 0 && len(dangling) > 0:
		d.Action, d.Reason, d.Drop = Drop, SomeDangling, dangling
	case count[Solid] > 0:
		d.Reason = OwnerSolid
	case count[Invalid] > 0:
		d.Reason = OwnerInvalid
	case count[Unknown] > 0:
		d.Reason = OwnerUnknown
	default:
		d.Action, d.Reason, d.Policy = Delete, OwnersDangling, policy(v.Record)
	}
	return d
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
