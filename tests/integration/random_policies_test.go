package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

// subject is an object of a random run and what users have successfully done to it.
type subject struct {
	k  kind
	ns string

	mu       sync.Mutex // one user at a time works on it
	name     string
	uid      types.UID
	refs     []metav1.OwnerReference // as users know them
	changed  bool                    // its references, after it was made
	policies []metav1.DeletionPropagation
}

// randomRun is a run of several users at once. What becomes of each object depends on who is first;
// what must hold in the end does not.
type randomRun struct {
	s     *server
	mu    sync.Mutex
	all   []*subject // references go to earlier ones only: no rings
	byUID map[types.UID]*subject
}

// TestRandomPolicies has several users who create, change and delete objects with all policies at once,
// with finalizers that come and go.
func TestRandomPolicies(t *testing.T) {
	seed := seedOf(t)

	s := shared(t)
	namespaces := []string{s.namespace(t, "random"), s.namespace(t, "random")}
	parts, crdParts := s.define(t, "Namespaced", "parts", "Part")
	worlds, crdWorlds := s.define(t, "Cluster", "worlds", "World")
	kinds := []kind{configMaps, secrets, parts, worlds}

	run := &randomRun{s: s, byUID: map[types.UID]*subject{}}
	var g errgroup.Group
	each := size.Of(75, 75, 150)
	for user := range 8 {
		g.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(user)))
			for i := range each {
				k := kinds[random.IntN(len(kinds))]
				ns := namespaces[random.IntN(len(namespaces))]
				if k == worlds {
					ns = ""
				}
				if err := run.create(t.Context(), random, k, ns, fmt.Sprintf("random-%d-%d", user, i)); err != nil {
					return err
				}
				var err error
				switch m := run.any(random); random.IntN(6) {
				case 0:
					err = run.delete(t.Context(), random, m)
				case 1:
					err = run.change(t.Context(), random, m, false)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 8))
	for _, m := range run.all {
		if err := run.change(t.Context(), random, m, true); err != nil {
			t.Fatal(err)
		}
	}

	var now map[types.UID]*metav1.PartialObjectMetadata
	quiet := func(ctx context.Context) (ok bool, saw any) {
		var err error
		if now, err = run.look(ctx, kinds); err != nil {
			return false, err
		}
		var unfinished []string
		for _, o := range now {
			if o.DeletionTimestamp != nil {
				unfinished = append(unfinished, fmt.Sprintf("%s waits, with finalizers %v", o.Name, o.Finalizers))
			}
			for _, r := range o.OwnerReferences {
				if now[r.UID] == nil {
					unfinished = append(unfinished, fmt.Sprintf("%s names %s, which is gone", o.Name, r.Name))
				}
			}
		}
		slices.Sort(unfinished)
		return len(unfinished) == 0, unfinished
	}
	await(t, "nothing to wait or dangle", quiet)
	for _, k := range kinds[:3] {
		s.foregroundBarrier(t, k, namespaces[0])
	}
	if ok, saw := quiet(t.Context()); !ok {
		t.Errorf("the state has changed after the collector was at rest: %v", saw)
	}
	run.check(t, now)
	size.Power(t, fmt.Sprintf("seed=%d users=8 objects=%d", seed, len(run.all)))
	s.undefine(t, crdParts)
	s.undefine(t, crdWorlds)
}

func (run *randomRun) any(random *rand.Rand) *subject {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.all[random.IntN(len(run.all))]
}

// owners chooses owners for an object that is to come after the first n.
func (run *randomRun) owners(random *rand.Rand, n int, ns string) (refs []metav1.OwnerReference) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for range random.IntN(4) {
		if n == 0 {
			break
		}
		o := run.all[max(random.IntN(n), random.IntN(n))]
		if o.ns != "" && o.ns != ns || slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == o.uid }) {
			continue
		}
		r := metav1.OwnerReference{APIVersion: o.k.apiVersion(), Kind: o.k.kind, Name: o.name, UID: o.uid}
		if block := random.IntN(3) > 0; block {
			r.BlockOwnerDeletion = &block
		}
		refs = append(refs, r)
	}
	if random.IntN(10) == 0 {
		refs = append(refs, nobody(clusterRoles))
	}
	return refs
}

func (run *randomRun) create(ctx context.Context, random *rand.Rand, k kind, ns, name string) error {
	run.mu.Lock()
	n := len(run.all)
	run.mu.Unlock()
	m := &subject{k: k, ns: ns, name: name, refs: run.owners(random, n, ns)}
	o := object(k, name, m.refs...)
	if random.IntN(5) == 0 {
		o.SetFinalizers([]string{hold})
	}
	o, err := run.s.dyn.Resource(k.gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.uid = o.GetUID()
	run.mu.Lock()
	defer run.mu.Unlock()
	run.all = append(run.all, m)
	run.byUID[m.uid] = m
	return nil
}

func (run *randomRun) delete(ctx context.Context, random *rand.Rand, m *subject) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := []metav1.DeletionPropagation{background, foreground, orphan}[random.IntN(3)]
	err := run.s.dyn.Resource(m.k.gvr).Namespace(m.ns).Delete(ctx, m.name, metav1.DeleteOptions{
		PropagationPolicy: &p, Preconditions: &metav1.Preconditions{UID: &m.uid},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	m.policies = append(m.policies, p)
	return err
}

// change changes an object's label, references or finalizer; final only takes its finalizer off.
func (run *randomRun) change(ctx context.Context, random *rand.Rand, m *subject, final bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what := random.IntN(4)
	client := run.s.dyn.Resource(m.k.gvr).Namespace(m.ns)
	for {
		o, err := client.Get(ctx, m.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		at := slices.Index(o.GetFinalizers(), hold)
		refs := o.GetOwnerReferences()
		switch {
		case final || o.GetDeletionTimestamp() != nil || at >= 0 && what == 0:
			if at < 0 {
				return nil
			}
			o.SetFinalizers(slices.Delete(o.GetFinalizers(), at, at+1))
		case what == 0:
			o.SetFinalizers(append(o.GetFinalizers(), hold))
		case what == 1:
			o.SetLabels(map[string]string{"changed": strconv.Itoa(random.IntN(1000))})
		case what == 2 && len(refs) > 0:
			o.SetOwnerReferences(slices.Delete(refs, 0, 1))
		default:
			run.mu.Lock()
			n := slices.Index(run.all, m)
			run.mu.Unlock()
			for _, r := range run.owners(random, n, m.ns) {
				if !slices.ContainsFunc(refs, func(had metav1.OwnerReference) bool { return had.UID == r.UID }) {
					refs = append(refs, r)
				}
			}
			o.SetOwnerReferences(refs)
		}
		_, err = client.Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case err == nil:
			if refs := o.GetOwnerReferences(); o.GetDeletionTimestamp() == nil && what >= 2 && !final {
				m.refs, m.changed = refs, true
			}
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return err
		}
	}
}

func (run *randomRun) look(ctx context.Context, kinds []kind) (map[types.UID]*metav1.PartialObjectMetadata, error) {
	found := map[types.UID]*metav1.PartialObjectMetadata{}
	for _, k := range kinds {
		list, err := run.s.meta.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if o := &list.Items[i]; run.byUID[o.UID] != nil {
				found[o.UID] = o
			}
		}
	}
	return found, nil
}

// check compares what is left with what users did.
func (run *randomRun) check(t *testing.T, now map[types.UID]*metav1.PartialObjectMetadata) {
	t.Helper()
	collected, deleted, freed := 0, 0, 0
	for _, m := range run.all {
		o := now[m.uid]
		switch {
		case o == nil && len(m.policies) > 0:
			deleted++
		case o == nil:
			collected++
			if len(m.refs) == 0 {
				t.Errorf("%s had no owner, nobody deleted it, and it is gone", m.name)
			}
			for _, r := range m.refs {
				if now[r.UID] != nil {
					t.Errorf("%s is gone, and its owner %s is there", m.name, r.Name)
				}
			}
			if run.leftBehind(m) {
				t.Errorf("%s is gone, though its only owner was deleted as one that leaves it behind", m.name)
			}
		case len(m.policies) > 0:
			t.Errorf("%s was deleted (%v) and is there", m.name, m.policies)
		default:
			var want []metav1.OwnerReference
			for _, r := range m.refs {
				if now[r.UID] != nil {
					want = append(want, r)
				}
			}
			if len(want) == 0 && len(m.refs) > 0 {
				freed++
				if !slices.ContainsFunc(m.refs, func(r metav1.OwnerReference) bool {
					return run.byUID[r.UID] != nil && slices.Contains(run.byUID[r.UID].policies, orphan)
				}) {
					t.Errorf("%s is there, all its owners are gone, and nobody asked for that", m.name)
				}
			}
			if got, want := asJSON(t, o.OwnerReferences), asJSON(t, want); got != want {
				t.Errorf("%s: references\n got %s\nwant %s", m.name, got, want)
			}
		}
	}
	t.Logf("of %d objects users deleted %d, %d were collected, %d are left, %d of them for an orphaning", len(run.all), deleted, collected, len(now), freed)
	if collected < 20 || deleted < 20 || freed == 0 || len(now) < 20 {
		t.Error("too few objects were deleted, collected or left for the run to show anything")
	}
}

// leftBehind is true if an object has never had but one owner, which had none itself and was deleted
// once, with the orphan policy.
func (run *randomRun) leftBehind(m *subject) bool {
	if m.changed || len(m.refs) != 1 {
		return false
	}
	o := run.byUID[m.refs[0].UID]
	return o != nil && !o.changed && len(o.refs) == 0 && slices.Equal(o.policies, []metav1.DeletionPropagation{orphan})
}
