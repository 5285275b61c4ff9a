package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// kubernetes decides about an object as Kubernetes' own collector does. It differs from
// decide.From in this: a reference blocks by its UID alone, nothing times out, one
// reference that cannot be judged keeps an object as it is, references are dropped by
// their UIDs, and an object whose owner and whose dependent both wait is taken for a part
// of a ring: unblock is true then, and its references are to block no longer.
func (r *run) kubernetes(v *graph.View) (d decide.Decision, unblock bool) {
	if v.Missing || v.Record.Deleting && v.Record.Orphan || len(v.Owners) == 0 && !v.Record.Deleting {
		return decide.From(r.g, v, decide.Options{}, r.now), false
	}
	dependents := r.g.Dependents(v.Key.UID)
	if v.Record.WaitingForDependents() {
		if slices.ContainsFunc(dependents, func(n graph.Node) bool { return blocksByUID(n.Record, v.Key) }) {
			return decide.Decision{Reason: decide.WaitsForDependent}, false
		}
		return decide.Decision{Action: decide.Release, Reason: decide.NothingBlocks}, false
	}
	if v.Record.Deleting {
		return decide.Decision{Reason: decide.BeingDeleted}, false
	}
	var drop []graph.Reference
	var unverified []graph.OwnerView
	waits, solid, veto := false, false, decide.Reason("")
	for i := range v.Owners {
		switch s := decide.Judge(&v.Owners[i], v.Record.Namespace, r.now); s {
		case decide.Unverified:
			unverified = append(unverified, v.Owners[i])
		case decide.Waiting, decide.Dangling, decide.Orphaned:
			waits = waits || s == decide.Waiting
			drop = append(drop, v.Owners[i].Reference)
		case decide.Solid:
			solid = true
		case decide.Unknown:
			veto = decide.OwnerUnknown
		case decide.Invalid:
			veto = decide.OwnerInvalid
		}
	}
	switch {
	case len(unverified) > 0:
		return decide.Decision{Action: decide.Verify, Reason: decide.OwnerUnverified, Verify: unverified}, false
	case veto != "":
		return decide.Decision{Reason: veto}, false
	case solid && len(drop) == 0:
		return decide.Decision{Reason: decide.OwnerSolid}, false
	case solid:
		var all []graph.Reference
		for _, ref := range v.Record.References {
			if slices.ContainsFunc(drop, func(d graph.Reference) bool { return d.UID == ref.UID }) {
				all = append(all, ref)
			}
		}
		return decide.Decision{Action: decide.Drop, Reason: decide.SomeDangling, Drop: all}, false
	case waits && v.HasDependents:
		unblock = slices.ContainsFunc(dependents, func(n graph.Node) bool { return r.byKey[n.Key].waited })
		return decide.Decision{Action: decide.Delete, Reason: decide.OwnerWaiting, Policy: metav1.DeletePropagationForeground}, unblock
	}
	d = decide.Decision{Action: decide.Delete, Reason: decide.OwnersDangling, Policy: policyOf(v.Record.Foreground && !v.Record.Orphan, v.Record.Orphan)}
	if waits {
		d.Reason = decide.OwnerWaiting
	}
	return d, false
}

// blocksByUID is true if an object makes another one wait, for Kubernetes' collector.
func blocksByUID(rec *graph.Record, owner graph.Key) bool {
	return slices.ContainsFunc(rec.References, func(ref graph.Reference) bool {
		return ref.UID == owner.UID && ref.BlockOwnerDeletion == graph.True
	})
}

// kubernetesRaces is true if Kubernetes' collector may do one thing or another about an
// object, or about its dependents, depending on the order in which it looks at objects. It
// has several workers, which read the owners live, and they do not wait for each other.
func (r *run) kubernetesRaces(v *graph.View, d decide.Decision) bool {
	if d.Action == decide.Release {
		return len(r.g.Dependents(v.Key.UID)) > 0
	}
	return !v.Record.Deleting && slices.ContainsFunc(v.Owners, func(o graph.OwnerView) bool {
		switch decide.Judge(&o, v.Record.Namespace, r.now) {
		case decide.Solid:
			return false
		case decide.Waiting: // it may wait no longer when it is read, unless it waits for this object
			return len(v.Owners) > 1 || o.Reference.BlockOwnerDeletion != graph.True
		}
		return len(v.Owners) > 1
	})
}

// shuffles returns random schedules for a number of objects: the fewer objects, the more schedules.
func shuffles(objects int) (all []schedule) {
	for i := range min(4000/max(objects, 1), 200) {
		all = append(all, schedule{shuffled: uint64(i) + 1})
	}
	return all
}

// kubernetesRetry is how long Kubernetes' collector waits at the most until it tries again
// what has failed: the delay doubles with each failure.
const kubernetesRetry = 1000 * time.Second

// triesAgain is true if Kubernetes' collector looks again at an object that has lost
// references even if none of its owners changes: if it goes on failing because nobody serves
// the kind of one. It gives up on an object without a namespace that names an owner in one.
func (r *run) triesAgain(t *thing, before *graph.Record) bool {
	v := r.g.ViewOf(t.keys[0].Resource, before)
	for i := range v.Owners {
		switch decide.Judge(&v.Owners[i], before.Namespace, r.now) {
		case decide.Unknown:
			return true
		case decide.Invalid:
			return false
		}
	}
	return false
}

// unblock makes the references of an object block no longer; false if none did.
func (r *run) unblock(t *thing, blocking []graph.Reference, after []int) bool {
	free := *t.rec
	free.References = slices.Clone(free.References)
	some := false
	for i, ref := range free.References {
		if ref.BlockOwnerDeletion == graph.True && slices.Contains(blocking, ref) {
			free.References[i].BlockOwnerDeletion = graph.False
			t.unblocks = append(t.unblocks, ref)
			some = true
		}
	}
	if some {
		r.put(t, &free, Unblocked, after)
	}
	return some
}
