package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// world is everything as it is at a moment, and the rules of docs/semantics.md about a world in which
// nothing moves. It shares no code with the collector.
type world struct {
	h       *hostile
	objects map[types.UID]*existing
	served  map[string]kind // by apiVersion and kind
}

type existing struct {
	*metav1.PartialObjectMetadata
	k kind
	m *exposed // nil for what is not of the run
}

func (h *hostile) look(ctx context.Context) (*world, error) {
	w := &world{h: h, objects: map[types.UID]*existing{}, served: map[string]kind{}}
	kinds := []kind{configMaps, secrets, clusterRoles}
	for _, c := range h.custom {
		kinds = append(kinds, c.k)
	}
	for i, k := range kinds {
		list, err := h.s.meta.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) && i >= 3 {
			continue // its kind is not there
		}
		if err != nil {
			return nil, err
		}
		w.served[k.apiVersion()+" "+k.kind] = k
		for j := range list.Items {
			o := &list.Items[j]
			w.objects[o.UID] = &existing{o, k, h.byUID[o.UID]}
		}
	}
	return w, nil
}

func (h *hostile) world(t *testing.T) *world {
	t.Helper()
	w, err := h.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// judgement is what a reference means in a world.
type judgement int

const (
	solid     judgement = iota
	waiting             // its owner waits for its dependents
	dangling            // there is no such owner
	forgotten           // its kind has gone: whether the owner's end was seen depends
	unknown             // nobody has ever served its kind, or that version
	invalid             // an object without a namespace names an owner in one
)

func (w *world) judge(d *existing, r metav1.OwnerReference) judgement {
	k, served := w.served[r.APIVersion+" "+r.Kind]
	_, kindServed := w.served[strings.TrimSuffix(r.APIVersion, unserved)+"v1 "+r.Kind]
	switch {
	case !served && (w.h.hopeless(d.Namespace, r) || kindServed):
		return unknown
	case !served:
		return forgotten
	case d.Namespace == "" && !w.h.clusterScoped(k):
		return invalid
	}
	o := w.objects[r.UID]
	switch {
	case o == nil || o.k != k || o.Name != r.Name || o.Namespace != "" && o.Namespace != d.Namespace:
		return dangling
	case waits(o):
		return waiting
	}
	return solid
}

// hopeless is true of references, of an object in a namespace, that nothing can ever be proved about. A
// version that is not served is, unless the kind goes altogether: then the owner's end is proof enough.
func (h *hostile) hopeless(ns string, r metav1.OwnerReference) bool {
	if strings.HasPrefix(r.APIVersion, ghost) {
		return true
	}
	if strings.HasSuffix(r.APIVersion, unserved) && !strings.HasPrefix(r.APIVersion, testGroup) {
		return true
	}
	return ns == "" && r.Kind != clusterRoles.kind && r.Kind != h.custom[2].kindName
}

// blocks is true if d makes o wait.
func (w *world) blocks(d, o *existing) bool {
	return slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool {
		if r.UID != o.UID || r.BlockOwnerDeletion == nil || !*r.BlockOwnerDeletion {
			return false
		}
		k, served := w.served[r.APIVersion+" "+r.Kind]
		return !served || k == o.k && r.Name == o.Name && (o.Namespace == "" || o.Namespace == d.Namespace)
	})
}

// stays returns what has a reason to be there, beginning with what nobody has deleted and what a
// finalizer holds. What waits has one only through another that has: a ring has none.
func (w *world) stays() map[types.UID]bool {
	stay := map[types.UID]bool{}
	for uid, o := range w.objects {
		stay[uid] = o.DeletionTimestamp == nil || slices.Contains(o.Finalizers, hold)
	}
	for grown := true; grown; {
		grown = false
		for uid, o := range w.objects {
			if !stay[uid] && waits(o) && w.hasReason(o, stay) {
				stay[uid], grown = true, true
			}
		}
	}
	return stay
}

// hasReason is true if something that stays makes an object wait.
func (w *world) hasReason(o *existing, stay map[types.UID]bool) bool {
	for uid, d := range w.objects {
		if uid != o.UID && stay[uid] && w.blocks(d, o) {
			return true
		}
	}
	return false
}

// ring is true if what an object makes wait makes it wait, through whatever others, and all of that is
// certain.
func (w *world) ring(o *existing) bool {
	seen := map[types.UID]bool{}
	for next := []*existing{o}; len(next) > 0; {
		d := next[len(next)-1]
		next = next[:len(next)-1]
		for _, r := range d.OwnerReferences {
			above := w.objects[r.UID]
			if r.BlockOwnerDeletion == nil || !*r.BlockOwnerDeletion || w.judge(d, r) != waiting {
				continue
			}
			if above == o {
				return true
			}
			if !seen[r.UID] {
				seen[r.UID] = true
				next = append(next, above)
			}
		}
	}
	return false
}

func (w *world) waiting() (names []string) {
	for _, o := range w.objects {
		if waits(o) {
			names = append(names, o.Name)
		}
	}
	return names
}

// unrest lists what cannot stay as it is.
func (w *world) unrest() (all []string) {
	stay := w.stays()
	for _, o := range w.objects {
		if o.m == nil {
			continue
		}
		for _, what := range append(w.wrongReferences(o), w.wrongState(o, stay)...) {
			all = append(all, fmt.Sprintf("%s %s (deleted: %v, finalizers %v): %s", o.k.kind, o.Name, o.DeletionTimestamp != nil, o.Finalizers, what))
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) wrongState(o *existing, stay map[types.UID]bool) (wrong []string) {
	var count [invalid + 1]int
	for _, r := range o.OwnerReferences {
		count[w.judge(o, r)]++
	}
	switch {
	case o.DeletionTimestamp == nil && count[solid] > 0 && count[dangling]+count[waiting] > 0:
		wrong = append(wrong, fmt.Sprintf("an owner keeps it, and it names others that are gone or going: %v", o.OwnerReferences))
	case o.DeletionTimestamp == nil && len(o.OwnerReferences) > 0 && count[dangling]+count[waiting] == len(o.OwnerReferences):
		wrong = append(wrong, fmt.Sprintf("no owner keeps it: %v", o.OwnerReferences))
	case o.DeletionTimestamp == nil:
	case slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents):
		wrong = append(wrong, "its dependents are not free yet")
	case waits(o) && !w.hasReason(o, stay):
		wrong = append(wrong, "it waits for nothing")
	case waits(o) && w.ring(o):
		wrong = append(wrong, "it waits in a ring")
	case !waits(o) && !stay[o.UID]:
		wrong = append(wrong, "nothing holds it")
	}
	return wrong
}

// wrongReferences compares an object's references with what users gave it. Some may be gone, and
// blockOwnerDeletion may be off where there was a ring. The rest is as it was.
func (w *world) wrongReferences(o *existing) (wrong []string) {
	for _, r := range o.OwnerReferences {
		if containsReference(o.m.refs, r) {
			continue
		}
		was, yes := r, true
		was.BlockOwnerDeletion = &yes
		switch {
		case !containsReference(o.m.refs, was):
			wrong = append(wrong, fmt.Sprintf("nobody gave it %v", r))
		case o.DeletionTimestamp == nil:
			wrong = append(wrong, fmt.Sprintf("nobody has deleted it, and %v blocks no more", r))
		case !w.h.everRing(o.UID, r.UID):
			wrong = append(wrong, fmt.Sprintf("it was in no ring with %s, and blocks it no more", r.Name))
		}
	}
	if o.DeletionTimestamp != nil {
		return wrong
	}
	for _, r := range o.m.refs {
		if !containsReference(o.OwnerReferences, r) && w.mustBeKept(o, r) {
			wrong = append(wrong, fmt.Sprintf("it has lost %v", r))
		}
	}
	return wrong
}

// mustBeKept is true of a reference whose owner was never gone or going, and of one that nothing can be
// proved about. An owner that was orphaned is dropped, whatever else the reference says.
func (w *world) mustBeKept(d *existing, r metav1.OwnerReference) bool {
	if m := w.h.byUID[r.UID]; m != nil && slices.Contains(m.policies, orphan) {
		return false
	}
	if w.h.hopeless(d.Namespace, r) {
		return true
	}
	return w.judge(d, r) == solid && w.objects[r.UID].DeletionTimestamp == nil
}

// everRing is true if an owner has ever blocked its own dependent, through whatever others.
func (h *hostile) everRing(dependent, owner types.UID) bool {
	seen := map[types.UID]bool{}
	for next := []types.UID{owner}; len(next) > 0; {
		uid := next[len(next)-1]
		next = next[:len(next)-1]
		if uid == dependent {
			return true
		}
		for o := range h.blocking[uid] {
			if !seen[o] {
				seen[o] = true
				next = append(next, o)
			}
		}
	}
	return false
}

// awaitQuiet waits until everything is as the rules want it, and checks that it stays so.
func (h *hostile) awaitQuiet(t *testing.T, when string) {
	t.Helper()
	quiet := func(ctx context.Context) (bool, any) {
		w, err := h.look(ctx)
		if err != nil {
			return false, err
		}
		unrest := w.unrest()
		return len(unrest) == 0, strings.Join(unrest, "\n")
	}
	await(t, when+": rest", quiet)
	if h.kindsEnd(t) {
		// Now the ends of their objects prove something to those that named a version that was not served. What that
		// sets going takes several steps.
		h.barriers(t)
		await(t, when+": rest without some kinds", quiet)
	}
	h.barriers(t)
	if ok, saw := quiet(t.Context()); !ok {
		t.Errorf("%s: later: %v", when, saw)
		h.explainWaiting(t)
	}
	w := h.world(t)
	there := 0
	for _, o := range w.objects {
		if o.m != nil {
			there++
		}
	}
	t.Logf("%s: %d objects were made, %d are there, %d of them wait", when, len(h.all), there, len(w.waiting()))
}

// barriers waits until the collector has decided about what it knew.
func (h *hostile) barriers(t *testing.T) {
	t.Helper()
	for _, k := range h.open {
		h.s.barrier(t, k, h.namespaceFor(k))
	}
	h.s.cycleBarrier(t, h.namespaces[0])
}

// kindsEnd waits for the ends of the kinds that are going and have no objects any more, until the collector knows of them. It returns
// whether there are any that it had not waited for.
func (h *hostile) kindsEnd(t *testing.T) (some bool) {
	t.Helper()
	w := h.world(t)
	for _, c := range h.custom {
		if !c.going || c.ended || w.has(c.k) {
			continue
		}
		h.s.awaitGone(t, definitions, c.crd)
		h.s.awaitNoSeries(t, c.plural)
		c.ended, some = true, true
	}
	return some
}

func (w *world) has(k kind) bool {
	for _, o := range w.objects {
		if o.k == k {
			return true
		}
	}
	return false
}

// explainWaiting logs what the collector says of objects that wait.
func (h *hostile) explainWaiting(t *testing.T) {
	t.Helper()
	for _, o := range h.world(t).objects {
		if waits(o) {
			why, errs, _ := h.s.run(t, "why", o.k.gvr.GroupResource().String()+"/"+o.Name, "-n", o.Namespace)
			t.Logf("%s%s", why, errs)
		}
	}
}

// checkHistory looks for what has gone and should not have, and what is free without anybody's wish.
func (h *hostile) checkHistory(t *testing.T) {
	t.Helper()
	w := h.world(t)
	collected, deleted, swept, left := 0, 0, 0, 0
	for _, m := range h.all {
		o := w.objects[m.uid]
		switch {
		case o != nil && len(m.policies) > 0:
			t.Errorf("%s was deleted (%v) and is there", m.name, m.policies)
		case o != nil:
			left++
			if len(o.OwnerReferences) == 0 && len(m.refs) > 0 && !slices.ContainsFunc(m.refs, h.orphaned) {
				t.Errorf("%s is there, all its owners are gone, and nobody asked for that", m.name)
			}
		case len(m.policies) > 0:
			deleted++
		case m.swept:
			swept++
		default:
			collected++
			h.mayBeGone(t, w, m)
		}
	}
	t.Logf("of %d objects users deleted %d, %d went with their kind, %d were collected, %d are left", len(h.all), deleted, swept, collected, left)
	if collected < 20 || deleted < 20 || left < 20 || swept == 0 {
		t.Error("too few objects were deleted, collected or left for the run to show anything")
	}
}

// orphaned is true if a reference's owner was deleted with propagation policy Orphan.
func (h *hostile) orphaned(r metav1.OwnerReference) bool {
	m := h.byUID[r.UID]
	return m != nil && slices.Contains(m.policies, orphan)
}

// mayBeGone checks that an object which nobody deleted had nothing that must have kept it.
func (h *hostile) mayBeGone(t *testing.T, w *world, m *exposed) {
	t.Helper()
	if len(m.refs) == 0 {
		t.Errorf("%s had no owner, nobody deleted it, and it is gone", m.name)
	}
	// As it was, for the rules.
	was := &existing{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.ns, Name: m.name, UID: m.uid}}, m.k, m}
	for _, r := range m.refs {
		if w.mustBeKept(was, r) {
			t.Errorf("%s is gone, though %v kept it", m.name, r)
		}
	}
	if m.changed || len(m.refs) != 1 {
		return
	}
	if o := h.byUID[m.refs[0].UID]; o != nil && w.orphanedOnly(o) && o.reference(true).Name == m.refs[0].Name && o.k.kind == m.refs[0].Kind && o.ns == m.ns {
		t.Errorf("%s is gone, though its only owner was deleted as one that leaves it behind", m.name)
	}
}

// orphanedOnly is true of an object that has gone in one way only.
func (w *world) orphanedOnly(m *exposed) bool {
	return !m.changed && len(m.refs) == 0 && !m.swept && slices.Equal(m.policies, []metav1.DeletionPropagation{orphan})
}

func containsReference(refs []metav1.OwnerReference, r metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(o metav1.OwnerReference) bool { return sameReference(o, r) })
}

func sameReferences(a, b []metav1.OwnerReference) bool { return slices.EqualFunc(a, b, sameReference) }

func sameReference(a, b metav1.OwnerReference) bool {
	same := func(x, y *bool) bool { return x == nil && y == nil || x != nil && y != nil && *x == *y }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		same(a.Controller, b.Controller) && same(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}
