package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	cycleBroken  = "CycleBroken"
	cyclesBroken = "reap_gc_cycles_broken_total"
)

// member is an object of a ring.
type member struct {
	k kind
	o *unstructured.Unstructured
}

// ring makes objects of these kinds: each makes the one before it wait, the first the last.
func (s *server) ring(t *testing.T, ns, name string, kinds ...kind) []member {
	t.Helper()
	var all []member
	for i, k := range kinds {
		var owners []metav1.OwnerReference
		if i > 0 {
			owners = append(owners, blocking(all[i-1].o))
		}
		all = append(all, member{k, s.create(t, k, ns, fmt.Sprintf("%s-%d", name, i), owners...)})
	}
	all[0].o = s.setOwners(t, all[0].k, all[0].o, blocking(all[len(all)-1].o))
	return all
}

// ringCase is a ring and the members that users delete in the foreground, in their order.
type ringCase struct {
	name    string
	kinds   []kind
	deleted []int
	ring    []member
}

// ringCases returns rings of all the sizes that differ in kind, with each order in which users can
// delete members of the small ones.
func ringCases(special ...kind) (cases []*ringCase) {
	for _, n := range []int{1, 2, 3, 12} {
		kinds := slices.Repeat([]kind{configMaps}, n)
		add := func(deleted ...int) {
			name := strings.ReplaceAll(strings.Trim(fmt.Sprint(deleted), "[]"), " ", "-")
			cases = append(cases, &ringCase{name: fmt.Sprintf("of-%d-deleted-%s", n, name), kinds: kinds, deleted: deleted})
		}
		add(0)
		if n == 12 {
			add(11)
			add(3, 9, 6)
			for _, order := range [][]int{upTo(n), reversed(upTo(n)), rand.New(rand.NewPCG(1, 2)).Perm(n)} {
				add(order...)
			}
			continue
		}
		for size := 2; size <= n; size++ {
			for _, order := range arrangements(upTo(n), size) {
				add(order...)
			}
		}
	}
	for i, k := range special {
		cases = append(cases,
			&ringCase{name: fmt.Sprintf("special-%d-alone", i), kinds: []kind{k}, deleted: []int{0}},
			&ringCase{name: fmt.Sprintf("special-%d-first", i), kinds: []kind{k, configMaps, secrets}, deleted: []int{0}},
			&ringCase{name: fmt.Sprintf("special-%d-last", i), kinds: []kind{configMaps, k}, deleted: []int{0}},
			&ringCase{name: fmt.Sprintf("special-%d-all", i), kinds: []kind{k, k, k}, deleted: []int{2, 0, 1}},
		)
	}
	return cases
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func reversed(of []int) []int {
	of = slices.Clone(of)
	slices.Reverse(of)
	return of
}

// arrangements returns every choice of n in every order.
func arrangements(of []int, n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for i, first := range of {
		for _, rest := range arrangements(slices.Concat(of[:i], of[i+1:]), n-1) {
			all = append(all, append([]int{first}, rest...))
		}
	}
	return all
}

// deleteMembers does what the case's users do.
func (s *server) deleteMembers(t *testing.T, c *ringCase) {
	t.Helper()
	for _, i := range c.deleted {
		m := c.ring[i]
		err := s.dyn.Resource(m.k.gvr).Namespace(m.o.GetNamespace()).Delete(t.Context(), m.o.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground})
		if err != nil && !apierrors.IsNotFound(err) { // the collector can be faster than the second user
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// awaitBroken waits until a ring has gone and users have been told why it could.
func (s *server) awaitBroken(t *testing.T, ring []member) {
	t.Helper()
	for _, m := range ring {
		s.awaitGone(t, m.k, m.o)
	}
	s.mustBeNamedAsRing(t, ring)
}

// mustBeNamedAsRing checks what users are told about each member.
func (s *server) mustBeNamedAsRing(t *testing.T, ring []member) {
	t.Helper()
	for _, m := range ring {
		events := s.awaitEvents(t, m.o, cycleBroken)
		if len(events) != 1 || events[0].Count != 1 || events[0].InvolvedObject.Name != m.o.GetName() || events[0].Namespace != eventsOf(m.o) {
			t.Errorf("%s: events %+v", m.o.GetName(), events)
		}
		text := events[0].Message
		if !strings.Contains(text, fmt.Sprintf(" %d in all", len(ring))) {
			t.Errorf("%s: %q does not say how many there are", m.o.GetName(), text)
		}
		if len(ring) > 5 {
			continue // only some are named
		}
		for _, other := range ring {
			if !strings.Contains(text, other.k.gvr.GroupResource().String()+"/"+other.o.GetName()) {
				t.Errorf("%s: %q does not name %s", m.o.GetName(), text, other.o.GetName())
			}
		}
	}
}

// cycleBarrier returns once the collector has looked for rings, and broken some, after the call.
func (s *server) cycleBarrier(t *testing.T, ns string) {
	t.Helper()
	for i := range 2 {
		r := s.ring(t, ns, fmt.Sprintf("cycle-barrier-%d", i), configMaps, configMaps)
		s.deleteAs(t, configMaps, r[0].o, foreground)
		s.awaitBroken(t, r)
	}
}

// barrierRings is how many rings cycleBarrier has broken.
const barrierRings = 2

// bystanders makes objects like those of a ring that nobody deletes, a ring among them.
func (s *server) bystanders(t *testing.T, ns string) {
	t.Helper()
	s.ring(t, ns, "living", configMaps, secrets, configMaps)
	o := s.create(t, configMaps, ns, "bystander")
	s.createMany(t, 10, configMaps, ns, "of-bystander", blocking(o))
}

// TestRingsEnd has rings of every size, deleted in the foreground by one user, or by several in every
// order. Nothing but the rings goes.
func TestRingsEnd(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "rings")
	wheels, crd := s.define(t, "Namespaced", "wheels", "Wheel")
	orbits, crdOrbits := s.define(t, "Cluster", "orbits", "Orbit")
	cases := ringCases(wheels)
	for _, c := range cases {
		c.ring = s.ring(t, ns, c.name, c.kinds...)
	}
	for _, c := range []*ringCase{
		{name: "orbit-alone", kinds: []kind{orbits}, deleted: []int{0}},
		{name: "orbits", kinds: []kind{orbits, orbits}, deleted: []int{1, 0}},
	} {
		c.ring = s.ring(t, "", c.name, c.kinds...)
		cases = append(cases, c)
	}
	s.bystanders(t, ns)
	before, broken := s.inventory(t), s.metric(t, cyclesBroken)
	for _, c := range cases {
		s.deleteMembers(t, c)
	}
	var gone []string
	for _, c := range cases {
		s.awaitBroken(t, c.ring)
		for _, m := range c.ring {
			gone = append(gone, line(m.k.gvr.GroupResource(), m.o.GetNamespace(), m.o.GetName()))
		}
	}
	s.cycleBarrier(t, ns)
	before.mustBe(t, s.inventory(t), gone)
	if got, want := s.metric(t, cyclesBroken)-broken, float64(len(cases)+barrierRings); got != want {
		t.Errorf("%v rings were broken, want %v", got, want)
	}
	s.undefine(t, crd)
	s.undefine(t, crdOrbits)
}

// TestRingsThatWereCompleteBeforeTheCollectorRan: each member was deleted by users, so that no
// dependent's collection can be the occasion.
func TestRingsThatWereCompleteBeforeTheCollectorRan(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir(), "--disable=gc")
	s.start(t)
	ns := s.namespace(t, "rings")
	cases := ringCases()
	for _, c := range cases {
		c.ring = s.ring(t, ns, c.name, c.kinds...)
		s.deleteMembers(t, c)
		for _, i := range c.deleted {
			s.mustWait(t, c.kinds[i], c.ring[i].o)
		}
	}
	x, o, y := s.eight(t, ns, "eight")
	eight := &ringCase{name: "eight", kinds: []kind{configMaps, configMaps, secrets}, deleted: []int{0, 2, 1}, ring: []member{{configMaps, x}, {configMaps, o}, {secrets, y}}}
	s.deleteMembers(t, eight)
	cases = append(cases, eight)
	s.bystanders(t, ns)
	before := s.inventory(t)
	s.stop(t)
	s.restart(t, s.args[:len(s.args)-1]...)
	var gone []string
	for _, c := range cases {
		s.awaitBroken(t, c.ring)
		for _, m := range c.ring {
			gone = append(gone, line(m.k.gvr.GroupResource(), ns, m.o.GetName()))
		}
	}
	s.cycleBarrier(t, ns)
	before.mustBe(t, s.inventory(t), gone)
	if got, want := s.metric(t, cyclesBroken), float64(len(cases)+barrierRings); got != want {
		t.Errorf("%v rings were broken, want %v", got, want)
	}
}

// eight makes two rings that share a member.
func (s *server) eight(t *testing.T, ns, name string) (x, shared, y *unstructured.Unstructured) {
	t.Helper()
	shared = s.create(t, configMaps, ns, name+"-shared")
	x = s.create(t, configMaps, ns, name+"-x", blocking(shared))
	y = s.create(t, secrets, ns, name+"-y", blocking(shared))
	return x, s.setOwners(t, configMaps, shared, blocking(x), blocking(y)), y
}

// Rings that share a member are broken as one ring if all members are being deleted. If the shared member has
// a solid owner, it stays, and no reference is cut.
func TestRingsThatShareAMemberEndTogether(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "shared-member")
	x, o, y := s.eight(t, ns, "through-shared")
	s.deleteAs(t, configMaps, o, foreground)
	for _, m := range []member{{configMaps, x}, {configMaps, o}, {secrets, y}} {
		s.awaitGone(t, m.k, m.o)
		s.awaitEvents(t, m.o, cycleBroken) // two of them may have been seen, and cut, before the third waits
	}

	broken := s.metric(t, cyclesBroken)
	x, o, y = s.eight(t, ns, "through-one")
	s.deleteAs(t, configMaps, x, foreground)
	s.awaitGone(t, configMaps, x)
	s.cycleBarrier(t, ns)
	s.mustBeFreedOf(t, configMaps, o, x.GetUID())
	s.mustBeAsMade(t, secrets, y)
	for _, m := range []*unstructured.Unstructured{x, o, y} {
		s.mustHaveNoEvent(t, m, cycleBroken)
	}
	if got := s.metric(t, cyclesBroken) - broken; got != barrierRings {
		t.Errorf("%v rings were broken", got)
	}
	// Now they are a ring of two.
	s.deleteAs(t, secrets, y, foreground)
	s.awaitBroken(t, []member{{configMaps, o}, {secrets, y}})
}

// Dependents of the ring's members are deleted first. An owner that waits for a member is deleted last.
func TestDependentsOfARingGoFirst(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "ring-tail")
	above := s.create(t, configMaps, ns, "above")
	a := s.create(t, configMaps, ns, "a", blocking(above))
	b := s.create(t, configMaps, ns, "b", blocking(a))
	a = s.setOwners(t, configMaps, a, blocking(above), blocking(b))
	below := s.create(t, configMaps, ns, "below", blocking(b))
	s.createMany(t, 50, configMaps, ns, "tail", blocking(below))
	last := s.createHeld(t, configMaps, ns, "last", blocking(below))
	r := s.record(t, configMaps, ns)
	// The one with two owners comes first: until it is deleted, one that stays frees it of one that waits.
	for _, o := range []*unstructured.Unstructured{a, b, above} {
		s.deleteAs(t, configMaps, o, foreground)
	}
	s.mustBeNamedAsRing(t, []member{{configMaps, a}, {configMaps, b}})
	s.awaitGone(t, configMaps, a) // b may wait for its tail, but a for b no more
	s.awaitDeleting(t, configMaps, last)
	s.cycleBarrier(t, ns)
	s.mustWait(t, configMaps, b)
	s.mustWait(t, configMaps, below)
	s.release(t, configMaps, last)
	ended := ends(r.awaitEnd(t, b))
	s.awaitGone(t, configMaps, above)
	s.awaitCount(t, 0, configMaps, ns)
	mustEndBefore(t, ended, last, below)
	mustEndBefore(t, ended, below, b)
	for _, o := range []*unstructured.Unstructured{above, below, last} {
		s.mustHaveNoEvent(t, o, cycleBroken)
	}
}

// TestOnlyReferencesWithinARingAreCut holds everything in place, to look at it. The collector finds it
// all at once: it would drop references to what waits from those that are still to be deleted.
func TestOnlyReferencesWithinARingAreCut(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir(), "--disable=gc")
	s.start(t)
	ns := s.namespace(t, "ring-cut")
	yes, no := true, false
	above, solid := s.create(t, configMaps, ns, "above"), s.create(t, secrets, ns, "solid")
	a := s.createHeld(t, configMaps, ns, "a")
	b := s.createHeld(t, configMaps, ns, "b", blocking(a))
	c := s.createHeld(t, configMaps, ns, "c", blocking(b), blocking(a))
	toSolid, notBlocking := blocking(solid), owner(b)
	toSolid.Controller = &yes
	refs := []metav1.OwnerReference{blocking(above), blocking(c), toSolid, notBlocking}
	a = s.setOwners(t, configMaps, a, refs...)
	// Each waits for a dependent of its own, too: one that waits for nothing more changes under the hands of
	// who breaks the ring, and is left as it is.
	var tails []*unstructured.Unstructured
	for _, o := range []*unstructured.Unstructured{a, b, c} {
		tails = append(tails, s.createHeld(t, configMaps, ns, "tail-"+o.GetName(), blocking(o)))
	}
	for _, o := range []*unstructured.Unstructured{a, b, c, above} {
		s.deleteAs(t, configMaps, o, foreground)
	}
	s.stop(t)
	s.restart(t, s.args[:len(s.args)-1]...)
	s.mustBeNamedAsRing(t, []member{{configMaps, a}, {configMaps, b}, {configMaps, c}})
	for _, o := range tails {
		s.awaitDeleting(t, configMaps, o)
	}
	s.cycleBarrier(t, ns)
	cut := func(r metav1.OwnerReference) metav1.OwnerReference { r.BlockOwnerDeletion = &no; return r }
	s.mustHaveOwners(t, configMaps, a, refs[0], cut(refs[1]), toSolid, notBlocking)
	s.mustHaveOwners(t, configMaps, b, cut(blocking(a)))
	s.mustHaveOwners(t, configMaps, c, cut(blocking(b)), cut(blocking(a)))
	for i, o := range []*unstructured.Unstructured{a, b, c} {
		s.mustHaveOwners(t, configMaps, tails[i], blocking(o))
		s.mustWait(t, configMaps, o)
	}
	s.mustWait(t, configMaps, above)
	// They wait for their own dependents alone, in whatever order those go.
	for i, o := range []*unstructured.Unstructured{c, a, b} {
		s.release(t, configMaps, tails[(i+2)%3])
		s.release(t, configMaps, o)
		s.awaitGone(t, configMaps, o)
		if i == 0 {
			s.foregroundBarrier(t, configMaps, ns)
			s.mustWait(t, configMaps, a)
			s.mustWait(t, configMaps, b)
			s.mustWait(t, configMaps, above)
		}
	}
	s.awaitGone(t, configMaps, above)
	s.mustBeAsMade(t, secrets, solid)
	for _, o := range append(tails, above) {
		s.mustHaveNoEvent(t, o, cycleBroken)
	}
}

// TestChainIsNeverCut has an owner, one below it, and one below that, which something else holds. All
// of them being deleted in the foreground does not make them a ring: they go from below.
func TestChainIsNeverCut(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "chain")
	broken := s.metric(t, cyclesBroken)
	r := s.record(t, configMaps, ns)
	type chain struct {
		name string
		all  []*unstructured.Unstructured // from above
	}
	var chains []chain
	for _, order := range [][]int{{0, 2}, {2, 0}, {0, 1, 2}, {2, 1, 0}, {1, 2}, {2, 1}} {
		for _, length := range []int{3, 4} {
			// In the longer one the third waits, too: only what is below it is held.
			c := chain{name: fmt.Sprintf("%d-of-%d", order, length)}
			prefix := strings.NewReplacer(" ", "-", "[", "", "]", "").Replace(c.name)
			for i := range length {
				var owners []metav1.OwnerReference
				if i > 0 {
					owners = append(owners, blocking(c.all[i-1]))
				}
				make := s.create
				if i == length-1 {
					make = s.createHeld
				}
				c.all = append(c.all, make(t, configMaps, ns, fmt.Sprintf("%s-%d", prefix, i), owners...))
			}
			for _, i := range order {
				s.deleteAs(t, configMaps, c.all[i], foreground)
			}
			if order[0] == 1 || len(order) == 2 && order[1] == 1 {
				c.all = c.all[1:] // nobody has deleted the first
			}
			chains = append(chains, c)
		}
	}
	for _, c := range chains {
		for _, o := range c.all {
			s.awaitDeleting(t, configMaps, o)
		}
	}
	s.cycleBarrier(t, ns)
	s.foregroundBarrier(t, configMaps, ns)
	s.cycleBarrier(t, ns)
	for _, c := range chains {
		for i, o := range c.all {
			if i < len(c.all)-1 {
				s.mustWait(t, configMaps, o)
			} else {
				s.mustExist(t, configMaps, o)
			}
		}
	}
	for _, c := range chains {
		s.release(t, configMaps, c.all[len(c.all)-1])
	}
	for _, c := range chains {
		events := r.awaitEnd(t, c.all[0])
		for i, o := range c.all {
			if i > 0 {
				mustEndBefore(t, ends(events), o, c.all[i-1])
			}
			s.mustHaveNoEvent(t, o, cycleBroken)
			want := asJSON(t, o.GetOwnerReferences())
			for _, e := range events {
				if now := e.Object.(metav1.Object); now.GetUID() == o.GetUID() && asJSON(t, now.GetOwnerReferences()) != want {
					t.Errorf("%s: %s had references %s, want %s", c.name, o.GetName(), asJSON(t, now.GetOwnerReferences()), want)
				}
			}
		}
	}
	if got := s.metric(t, cyclesBroken) - broken; got != 2*barrierRings {
		t.Errorf("%v rings were broken", got)
	}
}

// TestNamespaceEndsWithRingsInIt: the deletion of the namespace calls off the waiting of what is in it,
// and takes no events. A ring of objects without a namespace has dependents there.
func TestNamespaceEndsWithRingsInIt(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "rings-end")
	hoops, crd := s.define(t, "Cluster", "hoops", "Hoop")
	outside := s.ring(t, "", "hoop", hoops, hoops)
	inside := s.ring(t, ns, "inside", configMaps, secrets)
	held := s.createHeld(t, configMaps, ns, "held", blocking(outside[1].o), blocking(inside[0].o))
	for _, m := range append(slices.Clone(inside), outside...) {
		s.deleteAs(t, m.k, m.o, foreground)
	}
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, m := range inside {
		s.awaitGone(t, m.k, m.o)
	}
	s.mustBeNamedAsRing(t, outside)
	s.awaitGone(t, hoops, outside[0].o)
	s.foregroundBarrier(t, hoops, "")
	s.mustWait(t, hoops, outside[1].o)
	s.release(t, configMaps, held)
	s.awaitNamespaceGone(t, ns)
	s.awaitGone(t, hoops, outside[1].o)
	s.undefine(t, crd)
}
