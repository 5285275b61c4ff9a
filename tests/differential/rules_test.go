package differential

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rules checks each write of reap against docs/semantics.md, whatever upstream does: both collectors could be wrong in
// the same way.
type rules struct {
	*side
	w *world
	// asked are the deletions that users have asked for, by object.
	asked map[int][]metav1.DeletionPropagation
	// judged is up to where the history has been.
	judged uint64
}

// judge returns the wrong writes since its last call.
func (r *rules) judge() (bad []string) {
	to := r.judged
	for i := range r.w.objects {
		all := r.of(r.w, i)
		for n := range all {
			to = max(to, all[n].from)
			if all[n].from > r.judged && n > 0 {
				for _, why := range r.step(i, &all[n-1], &all[n]) {
					bad = append(bad, fmt.Sprintf("object %d at %d: %s", i, all[n].from, why))
				}
			}
		}
	}
	r.judged = to
	return bad
}

// step judges one write.
func (r *rules) step(i int, was, is *past) (bad []string) {
	if !was.deleting() && (is.gone || is.deleting()) && len(r.asked[i]) == 0 {
		bad = append(bad, r.deleted(i, was, is)...)
	}
	if is.gone {
		return append(bad, r.released(i, was, is)...)
	}
	left := is.meta.GetOwnerReferences()
	for _, had := range was.meta.GetOwnerReferences() {
		if slices.ContainsFunc(left, func(has metav1.OwnerReference) bool { return sameReference(had, has) }) {
			continue
		}
		if v := r.verdict(i, had, is.from); v == "solid" || v == "unprovable" {
			bad = append(bad, fmt.Sprintf("its reference to %s %s is %s, and was dropped", had.Kind, had.Name, v))
		}
	}
	return append(bad, r.released(i, was, is)...)
}

// deleted judges a deletion by the collector.
func (r *rules) deleted(i int, was, is *past) (bad []string) {
	refs := was.meta.GetOwnerReferences()
	if len(refs) == 0 {
		return []string{"it was deleted, and had no owner to lose"}
	}
	for _, had := range refs {
		if v := r.verdict(i, had, is.from); v != "dangling" && v != "waiting" {
			bad = append(bad, fmt.Sprintf("its reference to %s %s is %s, and it was deleted", had.Kind, had.Name, v))
		}
	}
	return bad
}

// released judges that a finalizer of the collector's goes, unless a user has asked for another deletion.
func (r *rules) released(i int, was, is *past) (bad []string) {
	for finalizer, policy := range map[string]metav1.DeletionPropagation{
		metav1.FinalizerDeleteDependents: metav1.DeletePropagationForeground, metav1.FinalizerOrphanDependents: metav1.DeletePropagationOrphan,
	} {
		if !was.deleting() || !was.has(finalizer) || !is.gone && is.has(finalizer) {
			continue
		}
		if slices.ContainsFunc(r.asked[i], func(p metav1.DeletionPropagation) bool { return p != policy }) {
			continue
		}
		for j := range r.w.objects {
			d := just(r.of(r.w, j), is.from)
			if d == nil {
				continue
			}
			for _, ref := range r.refs(d) {
				if ref.owner == i && (policy == metav1.DeletePropagationOrphan && names(r.w, j, ref) || policy == metav1.DeletePropagationForeground && ref.block == "true" && holds(r.w, j, ref)) {
					bad = append(bad, fmt.Sprintf("its finalizer %s went, and object %d still names it", finalizer, j))
				}
			}
		}
	}
	return bad
}

// verdict judges a reference of object i as of before a revision.
func (r *rules) verdict(i int, had metav1.OwnerReference, before uint64) string {
	ref := r.ref(had)
	if ref.owner >= 0 {
		all := r.of(r.w, ref.owner)
		orphaned := slices.ContainsFunc(all, func(p past) bool {
			return p.from < before && p.deleting() && p.has(metav1.FinalizerOrphanDependents)
		})
		if orphaned && (names(r.w, i, ref) || just(all, before) != nil) {
			return "orphaned" // all references to its UID go
		}
	}
	switch {
	case cannotBeProved(r.w, i, ref):
		return "unprovable"
	case ref.owner < 0 || !names(r.w, i, ref):
		return "dangling"
	}
	all := r.of(r.w, ref.owner)
	owner := just(all, before)
	switch {
	case owner == nil:
		return "dangling"
	case owner.waits() || slices.ContainsFunc(all, func(p past) bool { return p.waits() && r.judged < p.from && p.from < before }):
		return "waiting" // or did a moment ago
	}
	return "solid"
}

// unfinished returns the objects that a collector at rest should have deleted or changed.
func (r *rules) unfinished(now map[int]*state) (bad []string) {
	for i := range r.w.objects {
		st := now[i]
		switch {
		case st == nil:
			continue
		case st.waits():
			if len(r.blockers(now, i)) == 0 {
				bad = append(bad, fmt.Sprintf("object %d waits for its dependents, and nothing blocks it", i))
			}
			continue
		case st.deleting && slices.Contains(st.finalizers, metav1.FinalizerOrphanDependents):
			bad = append(bad, fmt.Sprintf("object %d is still to be orphaned", i))
			continue
		case st.deleting || len(st.refs) == 0:
			continue
		}
		solid, unprovable := 0, 0
		for _, ref := range st.refs {
			switch {
			case cannotBeProved(r.w, i, ref):
				unprovable++
			case !dangles(r.w, now, i, ref) && !now[ref.owner].waits():
				solid++
			}
		}
		switch left := len(st.refs) - solid - unprovable; {
		case solid+unprovable == 0:
			bad = append(bad, fmt.Sprintf("object %d is still there, and nothing keeps it: %s", i, st))
		case solid > 0 && left > 0:
			bad = append(bad, fmt.Sprintf("object %d has a solid owner and still names %d that are none: %s", i, left, st))
		}
	}
	return bad
}

// blockers are the objects with a reference that holds object i.
func (r *rules) blockers(now map[int]*state, i int) (all []int) {
	for j, st := range now {
		if slices.ContainsFunc(st.refs, func(ref ref) bool { return ref.owner == i && ref.block == "true" && holds(r.w, j, ref) }) {
			all = append(all, j)
		}
	}
	return all
}

func (r *rules) refs(p *past) (refs []ref) {
	for _, had := range p.meta.GetOwnerReferences() {
		refs = append(refs, r.ref(had))
	}
	return refs
}

func (r *rules) ref(had metav1.OwnerReference) ref {
	block := "unset"
	if had.BlockOwnerDeletion != nil {
		block = fmt.Sprint(*had.BlockOwnerDeletion)
	}
	return ref{slices.Index(r.uids[r.w.number], had.UID), had.APIVersion, had.Kind, had.Name, block}
}

func sameReference(a, b metav1.OwnerReference) bool {
	same := func(x, y *bool) bool { return x == y || x != nil && y != nil && *x == *y }
	return a.UID == b.UID && a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && same(a.BlockOwnerDeletion, b.BlockOwnerDeletion) && same(a.Controller, b.Controller)
}
