package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

// hostile is a run of several users who keep to no rule at all.
type hostile struct {
	s          *server
	namespaces []string
	custom     []*custom

	mu       sync.Mutex // protects what follows
	all      []*exposed
	byUID    map[types.UID]*exposed
	open     []kind                           // in which users make objects
	blocking map[types.UID]map[types.UID]bool // from dependents to owners: each blocking reference that there ever was
}

// exposed is an object of such a run.
type exposed struct {
	subject
	// swept is true once its kind has been taken away.
	swept bool
}

// custom is a kind that comes and goes.
type custom struct {
	scope, plural, kindName string
	k                       kind
	crd                     *unstructured.Unstructured // as long as it is there, or goes
	going                   bool
	ended                   bool // it was going, and the collector knows that it has gone
}

const (
	// ghost is a group that nobody ever serves, unserved a version that no group has.
	ghost    = "example.invalid"
	unserved = "v9"
)

// TestRulesHoldWithHostileUsers creates rings, wrong references of every kind, finalizers and kinds that come and go,
// and deletes with all policies at once. Whenever the users pause, the state obeys the rules; when they have
// removed their finalizers, nothing waits.
func TestRulesHoldWithHostileUsers(t *testing.T) {
	seed := seedOf(t)
	s := shared(t)
	h := &hostile{
		s:          s,
		namespaces: []string{s.namespace(t, "hostile"), s.namespace(t, "hostile")},
		custom: []*custom{
			{scope: "Namespaced", plural: "pests", kindName: "Pest"},
			{scope: "Namespaced", plural: "weeds", kindName: "Weed"},
			{scope: "Cluster", plural: "plagues", kindName: "Plague"},
		},
		byUID:    map[types.UID]*exposed{},
		blocking: map[types.UID]map[types.UID]bool{},
	}
	broken, timed := s.metric(t, cyclesBroken), s.metric(t, timeouts)
	rounds := []struct{ come, leave []int }{
		{come: []int{0, 1, 2}},
		{leave: []int{0}},
		{come: []int{0}, leave: []int{2}},
		{come: []int{2}, leave: []int{1}},
	}
	if slowness > 1 || size.Of(true, true, false) {
		rounds = rounds[:2] // in which kinds come and go
	}
	for round, plan := range rounds {
		h.changeKinds(t, plan.come, plan.leave)
		h.users(t, seed, round)
		h.awaitQuiet(t, fmt.Sprintf("round %d", round))
	}
	h.letGo(t)
	h.awaitQuiet(t, "nothing held")
	h.makeSense(t)
	all := []int{0, 1, 2}
	h.changeKinds(t, all, nil)
	h.awaitQuiet(t, "nothing unknown")
	if w := h.world(t); len(w.waiting()) > 0 {
		t.Errorf("there is nothing left to wait for, and these do: %v", w.waiting())
	}
	for _, c := range h.custom {
		if c.going {
			s.awaitGone(t, definitions, c.crd)
		}
	}
	h.changeKinds(t, all, nil)
	h.awaitQuiet(t, "all kinds")
	h.checkHistory(t)
	rings := s.metric(t, cyclesBroken) - broken
	if rings == 0 {
		t.Error("the run broke no ring")
	}
	size.Power(t, fmt.Sprintf("seed=%d users=6 rounds=%d objects=%d rings=%v", seed, len(rounds), len(h.all), rings))
	if got := s.metric(t, timeouts) - timed; got != 0 {
		t.Errorf("%v deletions timed out", got)
	}
	for _, c := range h.custom {
		s.undefine(t, c.crd)
	}
}

// changeKinds defines the kinds to come that are not there, and begins to take others away.
func (h *hostile) changeKinds(t *testing.T, come, leave []int) {
	t.Helper()
	for _, i := range come {
		c := h.custom[i]
		if c.going {
			if there, err := h.s.exists(t.Context(), definitions, c.crd); there || err != nil {
				continue // something holds its objects
			}
			c.crd, c.going, c.ended = nil, false, false
		}
		if c.crd == nil {
			c.k, c.crd = h.s.define(t, c.scope, c.plural, c.kindName)
			// What lives and dies before its kind is watched is believed in for a minute.
			h.s.barrier(t, c.k, h.namespaceFor(c.k))
		}
	}
	for _, i := range leave {
		c := h.custom[i]
		for _, m := range h.all {
			m.swept = m.swept || m.k == c.k
		}
		h.s.delete(t, definitions, c.crd)
		c.going = true
		// Else it would hardly ever go before the end.
		h.letGo(t, c.k)
	}
	h.open = []kind{configMaps, secrets, clusterRoles}
	for _, c := range h.custom {
		if c.crd != nil && !c.going {
			h.open = append(h.open, c.k)
		}
	}
}

func (h *hostile) clusterScoped(k kind) bool { return k == clusterRoles || k == h.custom[2].k }

func (h *hostile) namespaceFor(k kind) string {
	if h.clusterScoped(k) {
		return ""
	}
	return h.namespaces[0]
}

// users lets them do their worst, at once.
func (h *hostile) users(t *testing.T, seed uint64, round int) {
	t.Helper()
	var g errgroup.Group
	for user := range 6 {
		g.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(round*100+user)))
			for i := range 25 {
				name := fmt.Sprintf("%s-%d-%d-%d", h.namespaces[0], round, user, i)
				if err := h.act(t.Context(), random, name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (h *hostile) act(ctx context.Context, random *rand.Rand, name string) error {
	m := h.any(random)
	switch n := random.IntN(20); {
	case m == nil || n < 10:
		k := h.open[random.IntN(len(h.open))]
		ns := h.namespaces[random.IntN(len(h.namespaces))]
		if h.clusterScoped(k) {
			ns = ""
		}
		_, err := h.create(ctx, random, k, ns, name, h.references(random, ns, random.IntN(3)))
		return err
	case n < 13:
		return h.delete(ctx, m, []metav1.DeletionPropagation{background, foreground, foreground, orphan}[random.IntN(4)])
	case n < 15:
		return h.change(ctx, m, func(o *unstructured.Unstructured) {
			refs := o.GetOwnerReferences()
			if len(refs) > 0 && random.IntN(3) == 0 {
				refs = slices.Delete(refs, 0, 1)
			}
			o.SetOwnerReferences(distinct(append(refs, h.references(random, m.ns, random.IntN(2))...)))
		})
	case n < 17:
		return h.change(ctx, m, toggleHold)
	}
	return h.ring(ctx, random, name)
}

func toggleHold(o *unstructured.Unstructured) {
	f := o.GetFinalizers()
	if at := slices.Index(f, hold); at >= 0 {
		o.SetFinalizers(slices.Delete(f, at, at+1))
	} else if o.GetDeletionTimestamp() == nil {
		o.SetFinalizers(append(f, hold))
	}
}

// ring makes a ring and deletes some of its members in the foreground.
func (h *hostile) ring(ctx context.Context, random *rand.Rand, name string) error {
	ns := h.namespaces[random.IntN(len(h.namespaces))]
	var members []*exposed
	for i := range 1 + random.IntN(4) {
		k := h.open[random.IntN(len(h.open))]
		if h.clusterScoped(k) {
			k = configMaps
		}
		var refs []metav1.OwnerReference
		if i > 0 {
			refs = append(refs, members[i-1].reference(true))
		}
		m, err := h.create(ctx, random, k, ns, fmt.Sprintf("%s-ring-%d", name, i), refs)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	closed := members[len(members)-1].reference(true)
	err := h.change(ctx, members[0], func(o *unstructured.Unstructured) {
		o.SetOwnerReferences(distinct(append(o.GetOwnerReferences(), closed)))
	})
	if err != nil {
		return err
	}
	for _, i := range random.Perm(len(members))[:random.IntN(len(members)+1)] {
		if err := h.delete(ctx, members[i], foreground); err != nil {
			return err
		}
	}
	return nil
}

func (h *hostile) any(random *rand.Rand) *exposed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return nil
	}
	// Mostly a recent one: most of the old ones are gone.
	return h.all[max(random.IntN(len(h.all)), random.IntN(len(h.all)))]
}

func (m *exposed) reference(block bool) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: m.k.apiVersion(), Kind: m.k.kind, Name: m.name, UID: m.uid}
	if block {
		r.BlockOwnerDeletion = &block
	}
	return r
}

// references chooses n owners for an object in a namespace, and is not always right about them.
func (h *hostile) references(random *rand.Rand, ns string, n int) (refs []metav1.OwnerReference) {
	for range n {
		m := h.any(random)
		if m == nil {
			return nil
		}
		// Where the owner lives may be wrong, but not most of the time.
		for try := 0; try < 10 && m.ns != "" && m.ns != ns; try++ {
			m = h.any(random)
		}
		r := m.reference(random.IntN(4) > 0)
		switch random.IntN(24) {
		case 0:
			r = nobody(m.k)
		case 1:
			r.APIVersion, r.Kind = ghost+"/v1", "Ghost"
		case 2:
			r.APIVersion = strings.TrimSuffix(r.APIVersion, "v1") + unserved
		case 3:
			r.Name = "somebody-else"
		}
		refs = append(refs, r)
	}
	return distinct(refs)
}

// distinct drops what the API server would drop: a reference that another equals in every field.
func distinct(refs []metav1.OwnerReference) (all []metav1.OwnerReference) {
	for _, r := range refs {
		if !containsReference(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// note remembers references that an object has got, whoever changes them later.
func (h *hostile) note(m *exposed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byUID[m.uid] == nil {
		h.all = append(h.all, m)
		h.byUID[m.uid] = m
		h.blocking[m.uid] = map[types.UID]bool{}
	}
	for _, r := range m.refs {
		if r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion {
			h.blocking[m.uid][r.UID] = true
		}
	}
}

func (h *hostile) create(ctx context.Context, random *rand.Rand, k kind, ns, name string, refs []metav1.OwnerReference) (*exposed, error) {
	m := &exposed{subject: subject{k: k, ns: ns, name: name, refs: refs}}
	o := object(k, name, refs...)
	if random.IntN(5) == 0 {
		o.SetFinalizers([]string{hold})
	}
	o, err := h.s.dyn.Resource(k.gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	m.uid = o.GetUID()
	h.note(m)
	return m, nil
}

func (h *hostile) delete(ctx context.Context, m *exposed, p metav1.DeletionPropagation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := h.s.dyn.Resource(m.k.gvr).Namespace(m.ns).Delete(ctx, m.name, metav1.DeleteOptions{
		PropagationPolicy: &p, Preconditions: &metav1.Preconditions{UID: &m.uid},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone, under the API server's hands in the second case
	}
	m.policies = append(m.policies, p)
	return err
}

// change changes an object, if it is there. References of one that is deleted stay as they are.
func (h *hostile) change(ctx context.Context, m *exposed, do func(*unstructured.Unstructured)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	client := h.s.dyn.Resource(m.k.gvr).Namespace(m.ns)
	for {
		o, err := client.Get(ctx, m.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		before := o.GetOwnerReferences()
		do(o)
		deleting := o.GetDeletionTimestamp() != nil
		if deleting {
			o.SetOwnerReferences(before)
		}
		refs := o.GetOwnerReferences()
		_, err = client.Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		if !deleting {
			m.changed = m.changed || !sameReferences(refs, m.refs)
			m.refs = refs
			h.note(m)
		}
		return nil
	}
}

// letGo takes the finalizers off everything, or everything of some kinds.
func (h *hostile) letGo(t *testing.T, kinds ...kind) {
	t.Helper()
	for _, m := range h.all {
		if len(kinds) > 0 && !slices.Contains(kinds, m.k) {
			continue
		}
		err := h.change(t.Context(), m, func(o *unstructured.Unstructured) {
			if slices.Contains(o.GetFinalizers(), hold) {
				toggleHold(o)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// makeSense takes away every reference of a kind or version that nobody will ever serve, or in a place
// where it cannot be right.
func (h *hostile) makeSense(t *testing.T) {
	t.Helper()
	for _, m := range h.all {
		err := h.change(t.Context(), m, func(o *unstructured.Unstructured) {
			o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
				return h.hopeless(m.ns, r) || strings.HasSuffix(r.APIVersion, unserved)
			}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
