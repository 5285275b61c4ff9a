package differential

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These are the differences that are permitted, and that worlds can show; docs/semantics.md lists them.
const (
	// heldByUID: upstream lets a blocking reference hold the owner that has its UID, wherever else it points (another
	// namespace, kind or name, or from an object without a namespace); reap does not.
	heldByUID = "held by its UID alone"
	// guessed: upstream unsets blockOwnerDeletion in the references of an object whose dependents are in foreground
	// deletion, taking that for a ring.
	guessed = "unblocked on a guess"
	// dropped: upstream fails on an object with a reference whose owner can be neither proved nor disproved, and drops no
	// reference from it; if another owner keeps the object, reap drops the references to owners that are gone or wait. When all
	// other owners have been orphaned later, such a reference has upstream collect the object.
	dropped = "dropped beside an unknown reference"
	// forgotten: upstream never again looks at an object without a namespace that named an owner of a namespaced kind,
	// until something changes it, and at one that named an owner of an unknown kind only after a delay that has grown
	// with each failure, to a quarter of an hour; reap does when that reference has gone, and collects the object if the
	// rest dangles.
	forgotten = "forgotten after a reference that cannot be proved"
	// misplaced: upstream assumes that an owner which it has not seen yet is in the namespace of its dependent. If that
	// owner is cluster-scoped and names an owner of a namespaced kind, upstream looks for the latter in the dependent's
	// namespace, and takes it for gone if it is not there. reap makes no such assumption.
	misplaced = "an owner looked for in its dependent's dependent's namespace"
	// chance: an object that was deleted in both worlds, and that a finalizer holds, may or may not have lost a reference
	// before, depending on which of its owners was gone first.
	chance = "the order of its owners' ends"
	// moment: an owner has waited for its dependents, and a finalizer holds it now. If the collector looked at the
	// dependent while the owner waited, the dependent was deleted, or the reference was dropped if another owner keeps it; else
	// neither was.
	moment = "an owner that waited only for a moment"
)

// judge compares what two collectors have left of a world, and says which differences are permitted and
// which are not. After a final one the world goes on in different ways. waited are the objects that have been
// seen in foreground deletion, and history returns the states that an object has had upstream. That reap did no more than it may, and no
// less, is for rules to judge.
func judge(w *world, ours, theirs map[int]*state, waited map[int]bool, history func(int) []past) (reasons, bad []string, final bool) {
	held, unblocked, left := heldUpstream(w, ours, theirs, waited), unblockedUpstream(w, ours, theirs, history), forgottenUpstream(w, ours, theirs)
	lost, kept := misplacedUpstream(w, ours, theirs), keptForAMoment(w, ours, theirs, waited)
	freed := freedHere(w, ours, theirs, history)
	stays, staysHere := stayedAfterAMoment(w, theirs, ours, waited), stayedAfterAMoment(w, ours, theirs, waited)
	for i := range w.objects {
		a, b := ours[i], theirs[i]
		switch {
		case same(a, b):
		case held[i]:
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, heldByUID)), true
		case unblocked[i]:
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, guessed)), true
		case left[i]:
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, forgotten)), true
		case lost[i]:
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, misplaced)), true
		case freed[i]:
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, dropped)), true
		case byChance(w, ours, theirs, i):
			reasons = append(reasons, fmt.Sprintf("object %d: %s", i, chance))
		case droppedHere(w, theirs, i, a, b, waited):
			reasons = append(reasons, fmt.Sprintf("object %d: %s", i, dropped))
		case kept[i] || stays[i] || staysHere[i] || inAMoment(ours, theirs, i, waited):
			reasons, final = append(reasons, fmt.Sprintf("object %d: %s", i, moment)), true
		default:
			bad = append(bad, fmt.Sprintf("object %d: reap leaves %s,\n            upstream leaves %s", i, a, b))
		}
	}
	return reasons, bad, final
}

// droppedHere is true if an object has a reference that nothing can be proved about, and all that upstream
// has left it beyond ours is gone or waits.
func droppedHere(w *world, theirs map[int]*state, i int, a, b *state, waited map[int]bool) bool {
	if a == nil || b == nil || a.deleting != b.deleting || !slices.Equal(a.finalizers, b.finalizers) {
		return false
	}
	unprovable, n := false, 0
	for _, r := range b.refs {
		unprovable = unprovable || cannotBeProved(w, i, r)
		switch {
		case n < len(a.refs) && a.refs[n] == r:
			n++
		case r.owner < 0 || !names(w, i, r) || theirs[r.owner] == nil || theirs[r.owner].deleting && waited[r.owner]:
		default:
			return false
		}
	}
	return unprovable && n == len(a.refs)
}

// freedHere returns the objects that have no reference left in our world, and that upstream has deleted for references that reap dropped
// earlier, beside one that nothing could be proved about; and the dependents of such objects.
func freedHere(w *world, ours, theirs map[int]*state, history func(int) []past) map[int]bool {
	freed := map[int]bool{}
	for i, o := range w.objects { // owners come before their dependents
		a, b := ours[i], theirs[i]
		if a == nil || a.deleting || b != nil && !b.deleting {
			continue
		}
		if len(a.refs) > 0 {
			freed[i] = !slices.ContainsFunc(a.refs, func(r ref) bool { return r.owner < 0 || !freed[r.owner] || theirs[r.owner] != nil })
			continue
		}
		if !slices.ContainsFunc(o.refs, func(r reference) bool { return cannotBeProved(w, i, ref{apiVersion: r.apiVersion, kind: r.kind}) }) {
			continue
		}
		last := lastReferences(w, i, history)
		freed[i] = len(last) > 0 && !slices.ContainsFunc(last, func(r ref) bool { return cannotBeProved(w, i, r) || !dangles(w, theirs, i, r) })
	}
	return freed
}

// lastReferences returns the references of an object in its last state.
func lastReferences(w *world, i int, history func(int) []past) (refs []ref) {
	all := history(i)
	if len(all) == 0 {
		return nil
	}
	for _, r := range all[len(all)-1].meta.GetOwnerReferences() {
		owner := -1
		for j := range w.objects {
			if h := history(j); len(h) > 0 && h[0].meta.GetUID() == r.UID {
				owner = j
			}
		}
		refs = append(refs, ref{owner: owner, apiVersion: r.APIVersion, kind: r.Kind, name: r.Name})
	}
	return refs
}

// inAMoment is true if an object exists in both worlds and differs in references to owners that have waited, and
// wait no more.
func inAMoment(ours, theirs map[int]*state, i int, waited map[int]bool) bool {
	a, b := ours[i], theirs[i]
	if a == nil || b == nil || a.deleting != b.deleting || !slices.Equal(a.finalizers, b.finalizers) {
		return false
	}
	for _, pair := range [][2]*state{{a, b}, {b, a}} {
		for _, r := range pair[0].refs {
			if slices.Contains(pair[1].refs, r) {
				continue
			}
			for _, now := range []map[int]*state{ours, theirs} {
				if r.owner < 0 || now[r.owner] == nil || now[r.owner].waits() || !now[r.owner].deleting || !waited[r.owner] {
					return false
				}
			}
		}
	}
	return true
}

// stayedAfterAMoment returns the objects that were deleted in the other world alone, because all that they belong to waited only for a moment and
// a finalizer holds it now; and their dependents.
func stayedAfterAMoment(w *world, one, other map[int]*state, waited map[int]bool) map[int]bool {
	stays := map[int]bool{}
	for i := range w.objects { // owners come before their dependents
		a, b := one[i], other[i]
		if a == nil || a.deleting || b != nil && !b.deleting || len(a.refs) == 0 {
			continue
		}
		stays[i] = !slices.ContainsFunc(a.refs, func(r ref) bool {
			if r.owner < 0 || !names(w, i, r) {
				return true
			}
			x, y := one[r.owner], other[r.owner]
			held := waited[r.owner] && x != nil && y != nil && x.deleting && y.deleting && !x.waits() && !y.waits()
			return !held && !stays[r.owner]
		})
	}
	return stays
}

// keptForAMoment returns the objects that are held in both worlds and have lost a reference in one, because an owner that waited only
// for a moment kept them when the collector looked; and the owners that wait for them in the other world alone.
func keptForAMoment(w *world, ours, theirs map[int]*state, waited map[int]bool) map[int]bool {
	kept := map[int]bool{}
	for i := len(w.objects) - 1; i >= 0; i-- { // dependents come after their owners
		a, b := ours[i], theirs[i]
		switch {
		case a == nil || b == nil || !a.deleting || !b.deleting:
		case slices.Equal(a.refs, b.refs):
			kept[i] = waitsForKept(i, ours, theirs, kept) || waitsForKept(i, theirs, ours, kept)
		case slices.Equal(a.finalizers, b.finalizers):
			keeper, all := false, true
			for _, r := range slices.Concat(a.refs, b.refs) {
				gone := func(now map[int]*state) bool { return now[r.owner] == nil || now[r.owner].deleting }
				if !slices.Contains(a.refs, r) || !slices.Contains(b.refs, r) {
					all = all && r.owner >= 0 && waited[r.owner] && gone(ours) && gone(theirs)
					continue
				}
				x, y := ours[r.owner], theirs[r.owner]
				keeper = keeper || waited[r.owner] && names(w, i, r) && x != nil && y != nil && x.deleting && y.deleting && !x.waits() && !y.waits()
			}
			kept[i] = keeper && all
		}
	}
	return kept
}

// waitsForKept is true if an object waits in the one world for nothing but objects of kept that have lost their reference in the other
// world, where it does not wait, and if there is no other difference.
func waitsForKept(i int, one, other map[int]*state, kept map[int]bool) bool {
	rest := slices.DeleteFunc(slices.Clone(one[i].finalizers), func(f string) bool { return f == "foregroundDeletion" })
	if !one[i].waits() || !slices.Equal(rest, other[i].finalizers) {
		return false
	}
	blockers := 0
	for j, st := range one {
		for _, r := range st.refs {
			if r.owner != i || r.block != "true" {
				continue
			}
			blockers++
			if !kept[j] || slices.Contains(other[j].refs, r) {
				return false
			}
		}
	}
	return blockers > 0
}

// forgottenUpstream returns the objects that upstream leaves though all their references dangle, because it once could
// prove nothing about one of these references; and the dependents of such objects.
func forgottenUpstream(w *world, ours, theirs map[int]*state) map[int]bool {
	left := map[int]bool{}
	for i, o := range w.objects { // owners come before their dependents
		a, b := ours[i], theirs[i]
		if b == nil || b.deleting || len(b.refs) == 0 || a != nil && !a.deleting {
			continue
		}
		dangling, below := true, false
		for _, r := range b.refs {
			below = below || r.owner >= 0 && left[r.owner]
			dangling = dangling && !cannotBeProved(w, i, r) && (dangles(w, theirs, i, r) || left[r.owner])
		}
		left[i] = dangling && (below || slices.ContainsFunc(o.refs, func(r reference) bool {
			return cannotBeProved(w, i, ref{apiVersion: r.apiVersion, kind: r.kind})
		}))
	}
	return left
}

// misplacedUpstream returns the objects that upstream has deleted, or taken a reference from, because it looked for an
// owner in a namespace that no reference named; and the dependents of such objects.
func misplacedUpstream(w *world, ours, theirs map[int]*state) map[int]bool {
	lost := map[int]bool{}
	for i := range w.objects { // owners come before their dependents
		a, b := ours[i], theirs[i]
		if a == nil || a.deleting || same(a, b) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(a.refs), func(r ref) bool {
			return r.owner >= 0 && lost[r.owner] && theirs[r.owner] == nil || soughtElsewhere(w, theirs, i, r)
		})
		if len(rest) == len(a.refs) {
			continue
		}
		if b != nil && !b.deleting {
			lost[i] = slices.Equal(rest, b.refs)
			continue
		}
		lost[i] = !slices.ContainsFunc(rest, func(r ref) bool { return !dangles(w, theirs, i, r) })
	}
	return lost
}

// soughtElsewhere is true if a reference of object i, which has no namespace, to one that has to have one, may
// have been judged in the namespace of an object that names i, where that owner is not.
func soughtElsewhere(w *world, theirs map[int]*state, i int, r ref) bool {
	if w.objects[i].ns != "" || !slices.ContainsFunc(kinds, func(k *kind) bool {
		return k.namespaced && k.gvr.GroupVersion().String() == r.apiVersion && k.kind == r.kind
	}) {
		return false
	}
	for j, o := range w.objects {
		if o.ns != "" && dangles(w, theirs, j, r) &&
			slices.ContainsFunc(o.refs, func(to reference) bool { return to.owner == i && to.wrong == "" }) {
			return true
		}
	}
	return false
}

// byChance is true if an object is deleted in both worlds, and differs in references that dangle.
func byChance(w *world, ours, theirs map[int]*state, i int) bool {
	a, b := ours[i], theirs[i]
	if a == nil || b == nil || !a.deleting || !b.deleting || !slices.Equal(a.finalizers, b.finalizers) {
		return false
	}
	for _, pair := range [][2]*state{{a, b}, {b, a}} {
		for _, r := range pair[0].refs {
			if !slices.Contains(pair[1].refs, r) && !(dangles(w, ours, i, r) && dangles(w, theirs, i, r)) {
				return false
			}
		}
	}
	return true
}

func dangles(w *world, now map[int]*state, i int, r ref) bool {
	return r.owner < 0 || !names(w, i, r) || now[r.owner] == nil
}

// cannotBeProved is true if no server can be asked for the owner of object i.
func cannotBeProved(w *world, i int, r ref) bool {
	for _, k := range kinds {
		if k.gvr.GroupVersion().String() == r.apiVersion && k.kind == r.kind {
			return k.namespaced && w.objects[i].ns == ""
		}
	}
	return true
}

func same(a, b *state) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.deleting == b.deleting && slices.Equal(a.finalizers, b.finalizers) && slices.Equal(a.refs, b.refs)
}

// heldUpstream are the objects that wait in upstream's world and not in ours, for nothing but references
// that do not name them, or for objects that do so themselves.
func heldUpstream(w *world, ours, theirs map[int]*state, waited map[int]bool) map[int]bool {
	held := map[int]bool{}
	for i := len(w.objects) - 1; i >= 0; i-- { // dependents come after their owners
		if !theirs[i].waits() || ours[i].waits() {
			continue
		}
		blockers, permitted := 0, 0
		for j, st := range theirs {
			for _, r := range st.refs {
				if r.owner != i || r.block != "true" {
					continue
				}
				blockers++
				if held[j] || !holds(w, j, r) || ours[j] != nil && !slices.Contains(ours[j].refs, r) && droppedHere(w, theirs, j, ours[j], st, waited) {
					permitted++
				}
			}
		}
		left := waitEnded(theirs[i], ours[i]) && (ours[i] == nil || slices.Equal(ours[i].refs, theirs[i].refs))
		held[i] = blockers > 0 && permitted == blockers && left
	}
	return held
}

// waitEnded is true if an object that waits in the one world has the other finalizers left in the other world, or has gone if it has none.
func waitEnded(waits, ended *state) bool {
	rest := slices.DeleteFunc(slices.Clone(waits.finalizers), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	if ended == nil {
		return len(rest) == 0
	}
	return ended.deleting && slices.Equal(ended.finalizers, rest)
}

// holds is true if a blocking reference of object j is to hold its owner: it names it, or nobody knows and the
// owner could be the object's.
func holds(w *world, j int, r ref) bool {
	of := w.objects[r.owner].ns
	return names(w, j, r) || unknown(r) && (of == "" || of == w.objects[j].ns)
}

// unknown is true if nobody serves the kind that a reference names, or that version of it.
func unknown(r ref) bool {
	return !slices.ContainsFunc(kinds, func(k *kind) bool { return k.gvr.GroupVersion().String() == r.apiVersion && k.kind == r.kind })
}

// names is true if a reference of object j is one to its owner in more than the UID.
func names(w *world, j int, r ref) bool {
	o := w.objects[r.owner]
	return r.apiVersion == o.kind.gvr.GroupVersion().String() && r.kind == o.kind.kind && r.name == o.name &&
		(o.ns == "" || o.ns == w.objects[j].ns)
}

// unblockedUpstream returns the objects in whose references upstream has unset blockOwnerDeletion though there is no
// ring, and the owners that therefore no longer wait. The history has to show both.
func unblockedUpstream(w *world, ours, theirs map[int]*state, history func(int) []past) map[int]bool {
	unblocked := map[int]bool{}
	for j, a := range ours {
		b := theirs[j]
		if b == nil || !a.waits() || !b.waits() || len(a.refs) != len(b.refs) || !slices.Equal(a.finalizers, b.finalizers) || same(a, b) {
			continue
		}
		guess := true
		for n, r := range a.refs {
			was := b.refs[n]
			if r.block == "true" && was.block == "false" {
				was.block = r.block
			}
			guess = guess && r == was
		}
		below := false
		for _, st := range theirs {
			for _, r := range st.refs {
				below = below || r.owner == j && st.waits()
			}
		}
		unblocked[j] = guess && below && hasGuessed(w, j, history)
	}
	for again := true; again; {
		again = false
		for i, a := range ours {
			if unblocked[i] || !a.waits() || theirs[i].waits() || !waitEnded(a, theirs[i]) {
				continue
			}
			blockers, permitted := 0, 0
			for j, st := range ours {
				for _, r := range st.refs {
					if r.owner == i && r.block == "true" {
						blockers++
						if unblocked[j] {
							permitted++
						}
					}
				}
			}
			if blockers > 0 && permitted == blockers && endedUnblocked(w, i, history) {
				unblocked[i], again = true, true
			}
		}
	}
	return unblocked
}

// hasGuessed is true if upstream has unset blockOwnerDeletion in a reference of object j after an owner of j had waited, and a dependent.
// Upstream reads the owner live, and knows of the dependent by an event: both are in the history before the write. They need not wait
// any more when it comes.
func hasGuessed(w *world, j int, history func(int) []past) bool {
	all := history(j)
	for n := 1; n < len(all); n++ {
		was, is := &all[n-1], &all[n]
		if !slices.ContainsFunc(was.meta.GetOwnerReferences(), func(had metav1.OwnerReference) bool {
			return blocks(had) && slices.ContainsFunc(is.meta.GetOwnerReferences(), func(has metav1.OwnerReference) bool { return has.UID == had.UID && !blocks(has) })
		}) {
			continue
		}
		above, below := false, false
		for i := range w.objects {
			for _, p := range history(i) {
				if p.from < is.from && p.waits() {
					above = above || refersTo(was, p.meta.GetUID())
					below = below || refersTo(&p, was.meta.GetUID())
				}
			}
		}
		if above && below {
			return true
		}
	}
	return false
}

// endedUnblocked is true if nothing blocked object i any more when its wait ended upstream. Upstream goes by its graph, which lags behind:
// what blocks an object there blocks it longer than in the store, since no reference is added after the worlds were made. An object that
// has never waited upstream was deleted in the background, since its owners had gone earlier than here; its history shows no wait to end.
func endedUnblocked(w *world, i int, history func(int) []past) bool {
	all, ended := history(i), -1
	for n := range all {
		if all[n].waits() {
			ended = n + 1
		}
	}
	if ended < 0 {
		return true
	}
	if ended == len(all) {
		return false
	}
	for j := range w.objects {
		d := just(history(j), all[ended].from)
		if d != nil && slices.ContainsFunc(d.meta.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == all[0].meta.GetUID() && blocks(r) }) {
			return false
		}
	}
	return true
}

func refersTo(p *past, uid types.UID) bool {
	return slices.ContainsFunc(p.meta.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid })
}
