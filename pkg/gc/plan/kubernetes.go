package plan

import (
	"slices"

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
	waits, solid, veto := false, false, decide.Reason("")
	for i := range v.Owners {
		switch s := decide.Judge(&v.Owners[i], v.Record.Namespace, r.now); s {
		case decide.Unverified:
			return decide.Decision{Action: decide.Verify, Reason: decide.OwnerUnverified, Verify: v.Owners[i : i+1]}, false
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
		unblock = slices.ContainsFunc(dependents, func(n graph.Node) bool { return n.Record.WaitingForDependents() })
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

// unblock makes the references of an object block no longer.
func (r *run) unblock(t *thing, blocking []graph.Reference, after []int) {
	free := *t.rec
	free.References = slices.Clone(free.References)
	for i, ref := range free.References {
		if slices.Contains(blocking, ref) {
			free.References[i].BlockOwnerDeletion = graph.False
			t.unblocks = append(t.unblocks, ref)
		}
	}
	r.put(t, &free, Unblocked, after)
}
