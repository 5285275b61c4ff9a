package plan

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// orphanByDefault are the resources whose dependents stay if a DELETE names no policy.
var orphanByDefault = map[schema.GroupResource]bool{
	{Resource: "replicationcontrollers"}: true,
	{Group: "batch", Resource: "jobs"}:   true,
}

// finalizers says which of the collector's finalizers a DELETE leaves: those of the
// policy that it names, else those that the object carries, else those of its resource's
// default policy.
func finalizers(t *thing, p metav1.DeletionPropagation) (foreground, orphan bool) {
	switch {
	case p != "":
		return p == metav1.DeletePropagationForeground, p == metav1.DeletePropagationOrphan
	case t.rec.Orphan:
		return false, true
	case t.rec.Foreground:
		return true, false
	}
	return false, slices.ContainsFunc(t.keys, func(k graph.Key) bool { return orphanByDefault[k.Resource] })
}

// delete is a DELETE: it removes an object, or marks it if a finalizer holds it. A second
// one changes nothing but the finalizers.
func (r *run) delete(t *thing, p metav1.DeletionPropagation, why Reason, by *thing, after []int) {
	if t.gone {
		return
	}
	foreground, orphan := finalizers(t, p)
	marked := *t.rec
	switch {
	case !t.rec.Deleting:
		marked.Deleting, marked.DeletedAt = true, r.now.Unix()
		t.reason, t.policy, t.by = why, policyOf(foreground, orphan), by
		r.open(t)
	case foreground == t.rec.Foreground && orphan == t.rec.Orphan, t.contents != nil:
		t.touched = t.touched || why == Requested
		return
	}
	// If its deadline has passed already, it matters which dependents are looked at before that
	// is noticed.
	r.raced = r.raced || t.rec.Deleting && foreground
	marked.Foreground, marked.Orphan = foreground, orphan
	r.put(t, &marked, Marked, after)
}

func policyOf(foreground, orphan bool) metav1.DeletionPropagation {
	switch {
	case foreground:
		return metav1.DeletePropagationForeground
	case orphan:
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}

// drop takes references from an object. It returns the event.
func (r *run) drop(t *thing, drop []graph.Reference, why Reason, by *thing, after []int) int {
	kept := *t.rec
	kept.References = slices.DeleteFunc(slices.Clone(kept.References), func(ref graph.Reference) bool { return slices.Contains(drop, ref) })
	t.loses = append(t.loses, drop...)
	if t.reason == "" {
		t.reason, t.by = why, by
	}
	return r.put(t, &kept, Dropped, after)
}

// put stores an object, or ends it if it is being deleted and nothing holds it any more.
// The graph hears of it at once. It returns the event.
func (r *run) put(t *thing, rec *graph.Record, what What, after []int) int {
	rec.ResourceVersion = next(t.rec.ResourceVersion)
	before := t.rec
	t.rec, t.waited = rec, t.waited || rec.WaitingForDependents()
	ends := rec.Deleting && !rec.Foreground && !rec.Orphan && !r.held(t, rec) && (t.contents == nil || t.contents.empty)
	if what == Marked {
		t.marked = r.note(Marked, t, after)
		after = []int{t.marked}
	}
	at := t.marked
	switch {
	case ends:
		at = r.note(Ended, t, after)
		t.ended, t.gone = at, true
	case what != Marked:
		at = r.note(what, t, after)
	}
	affected := r.clear(t, before, rec, at)
	for _, k := range t.keys {
		if ends {
			affected = append(affected, r.g.Deleted(k.Resource, rec, r.now)...)
		} else {
			affected = append(affected, r.g.Upsert(k.Resource, rec, r.now)...)
		}
	}
	if r.rules.Kubernetes && what == Dropped {
		affected = slices.DeleteFunc(affected, func(k graph.Key) bool { return slices.Contains(t.keys, k) })
		if !t.gone && r.triesAgain(t, before) {
			r.timers.set(t.keys[0], r.now.Add(kubernetesRetry))
		}
	}
	r.consider(affected)
	if t.gone {
		for _, c := range t.in {
			r.left(c, at)
		}
	}
	return at
}

// clear notes at an object's owners that one of its references blocks them no longer. It
// returns those that the graph itself would not look at again.
func (r *run) clear(t *thing, before, rec *graph.Record, at int) (again []graph.Key) {
	if !slices.ContainsFunc(before.References, func(ref graph.Reference) bool { return ref.BlockOwnerDeletion == graph.True }) {
		return nil
	}
	v := r.g.ViewOf(t.keys[0].Resource, before)
	for i := range v.Owners {
		o := &v.Owners[i]
		if o.Reference.BlockOwnerDeletion != graph.True || !t.gone && slices.Contains(rec.References, o.Reference) {
			continue
		}
		for _, owner := range r.byUID[o.Reference.UID] {
			if r.rules.Kubernetes && owner.rec.WaitingForDependents() {
				// Whatever names its UID may have been what it waited for.
				owner.cleared = append(owner.cleared, at)
				again = append(again, owner.keys...)
				continue
			}
			if o.Resource == nil || o.Observed != nil && o.Observed.Name == owner.first.Name && o.Observed.Namespace == owner.first.Namespace {
				owner.cleared = append(owner.cleared, at)
			}
		}
	}
	return again
}

// next returns the resourceVersion after a change. It only has to be newer.
func next(version string) string {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return version
	}
	return strconv.FormatUint(n+1, 10)
}
