package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// RecheckAfter is how long a live read that found an owner which no monitor shows
	// is believed. Nothing else would tell that such an owner has gone.
	RecheckAfter = 15 * time.Minute
	// RecheckMonitored is the same for an owner whose resource has a monitor: it will
	// show the owner soon, or its end has been missed.
	RecheckMonitored = time.Minute
	// WaitingFor is how long a live read that found an owner in foreground deletion
	// is believed: long enough to serve the dependents that are decided about at the
	// same time. An owner's wait can be called off.
	WaitingFor = time.Second
	// WaitingShown is the same while a monitor shows the owner waiting, at the version
	// that was read or a newer one: long enough to read all owners of an object that names
	// thousands.
	WaitingShown = 30 * time.Second
)

// State is the judgement of one reference.
type State uint8

const (
	// Unverified: nobody knows whether the owner exists, or whether it still waits; a
	// live read will tell.
	Unverified State = iota
	// Solid: the owner exists, where the reference says, and does not wait for its
	// dependents.
	Solid
	// Waiting: the owner exists, is in foreground deletion and waits for its
	// dependents; a live read has just said so.
	Waiting
	// Orphaned: the owner is gone, and was deleted with propagation policy Orphan.
	Orphaned
	// Dangling: the owner is proved not to exist.
	Dangling
	// Unknown: no server serves the reference's kind, so nothing can be proved.
	Unknown
	// Invalid: a cluster-scoped object names an owner of a namespaced kind; the
	// owner's namespace cannot be known.
	Invalid
)

func (s State) String() string {
	return [...]string{"unverified", "solid", "waiting", "orphaned", "dangling", "unknown", "invalid"}[s]
}

// Judge says what is known at the time now of the owner that a reference names.
// namespace is that of the object with the reference.
func Judge(o *graph.OwnerView, namespace string, now time.Time) State {
	switch {
	case o.Orphaned:
		return Orphaned
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
	case o.Fact.State == graph.Present && now.Before(believedUntil(o)):
		if o.Fact.Waiting && !calledOff(o) {
			return Waiting
		}
		return Solid
	case o.Observed != nil && !o.Observed.WaitingForDependents():
		return Solid
	case o.Fact.Proved():
		return Dangling
	}
	return Unverified
}

// believedUntil is until when a live read that found the owner is to be believed.
func believedUntil(o *graph.OwnerView) time.Time {
	switch {
	case o.Fact.Waiting && o.Observed != nil && o.Observed.WaitingForDependents() && newer(o) >= 0:
		return o.Fact.Seen.Add(WaitingShown)
	case o.Fact.Waiting || o.Observed != nil:
		return o.Fact.Seen.Add(WaitingFor)
	case o.Resource.Monitored:
		return o.Fact.Seen.Add(RecheckMonitored)
	}
	return o.Fact.Seen.Add(RecheckAfter)
}

// calledOff is true if a monitor has shown since the owner was read that it no longer
// waits.
func calledOff(o *graph.OwnerView) bool {
	return o.Observed != nil && !o.Observed.WaitingForDependents() && newer(o) > 0
}

// newer compares the version of the owner that a monitor shows with the one that was
// read: it is negative if the monitor lags behind the read. Versions that cannot be
// compared count as that, unless they are the same.
func newer(o *graph.OwnerView) int {
	if o.Observed.ResourceVersion == o.Fact.Version {
		return 0
	}
	n, err := resourceversion.CompareResourceVersion(o.Observed.ResourceVersion, o.Fact.Version)
	if err != nil {
		return -1
	}
	return n
}
