package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/tests/program"
	"github.com/reap-dev/reap/tests/size"
)

// asked is how many of the plans are also made with the program; each of these lists the server.
const asked = 3

// foretold is a deletion in a world, and its plan.
type foretold struct {
	*world
	later  *thing // gets its last reference when all are there; nil for none
	target *unstructured.Unstructured
	of     *kind
	policy metav1.DeletionPropagation
	plan   *plan.Result
	fates  map[types.UID]*plan.Object
}

// TestPlansAgainstUpstream plans deletions on a server with Kubernetes' own collector, from a list of its objects,
// then makes them, and compares the outcome with the plan.
func TestPlansAgainstUpstream(t *testing.T) {
	seed := number(t, seedVariable, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVariable, seed)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	var worlds []*foretold
	for i := range int(number(t, worldsVariable, size.Of[uint64](15, 50, 150))) {
		worlds = append(worlds, &foretold{world: newWorld(i, rand.New(rand.NewPCG(seed, uint64(i))))})
	}
	s := &side{server: start(t, "upstream", "--disable=gc"), uids: make([][]types.UID, len(worlds))}
	runUpstream(t, s.server)
	s.mustWork(t)
	each := func(do func(w *foretold) error) {
		t.Helper()
		g := errgroup.Group{}
		g.SetLimit(4)
		for _, w := range worlds {
			g.Go(func() error { return do(w) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	each(func(w *foretold) error { return s.make(t.Context(), w.world) })
	there := s.rest(t) // what dangles from the beginning goes first
	for _, w := range worlds {
		w.draw(random, func(i int) bool { return there[s.uids[w.number][i]] != nil })
	}
	each(func(w *foretold) error { return s.change(t.Context(), w) })
	before := s.rest(t)

	listed, err := listing.List(t.Context(), s.config, listing.Options{})
	if err != nil || len(listed.Gaps) > 0 {
		t.Fatal(err, listed.Gaps)
	}
	worlds = slices.DeleteFunc(worlds, func(w *foretold) bool { return !w.choose(random, s, before) })
	for _, w := range worlds {
		k := graph.Key{Resource: w.of.gvr.GroupResource(), UID: w.target.GetUID()}
		if w.plan, err = plan.Take(listed.Graph, []graph.Key{k}).Delete(t.Context(), w.policy, plan.Rules{Kubernetes: true, Rings: true}, listed.Now); err != nil {
			t.Fatal(err)
		}
		w.fates = map[types.UID]*plan.Object{}
		for i := range w.plan.Objects {
			w.fates[w.plan.Objects[i].Record.UID] = &w.plan.Objects[i]
		}
	}
	for _, w := range worlds[:min(asked, len(worlds))] {
		w.ask(t, s)
	}
	if after, err := s.objects(t.Context()); err != nil || !maps.EqualFunc(before, after, sameVersion) {
		t.Fatalf("plans have changed the server: %v", err)
	}

	each(func(w *foretold) error {
		options := metav1.DeleteOptions{}
		if w.policy != "" {
			options.PropagationPolicy = &w.policy
		}
		return s.dyn.Resource(w.of.gvr).Namespace(w.target.GetNamespace()).Delete(t.Context(), w.target.GetName(), options)
	})
	var wrong []string
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		now := s.rest(t)
		wrong = nil
		for _, w := range worlds {
			if bad := w.compare(s, before, now); len(bad) > 0 {
				wrong = append(wrong, fmt.Sprintf("%sdelete %s %q:\n  %s", w, w.target.GetName(), w.policy, strings.Join(bad, "\n  ")))
			}
		}
		return len(wrong) == 0, nil
	})
	if err != nil {
		t.Errorf("%d of %d deletions come otherwise than foretold:\n%s", len(wrong), len(worlds), strings.Join(wrong, "\n"))
	}
	fates, uncertain, late := map[plan.Fate]int{}, 0, 0
	for _, w := range worlds {
		for _, o := range w.plan.Objects {
			fates[o.Fate]++
			if o.Uncertain {
				uncertain++
			}
			if o.At > 0 {
				late++
			}
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d graphs=%d gone=%d stuck=%d freed=%d unchanged=%d uncertain=%d late=%d", seed, len(worlds),
		fates[plan.Gone], fates[plan.Stuck], fates[plan.Freed], fates[plan.Unchanged], uncertain, late))
	t.Logf("%d graphs: %v, %d uncertain, %d late", len(worlds), fates, uncertain, late)
	if n := len(worlds); n >= 40 && min(fates[plan.Gone], fates[plan.Freed]) == 0 ||
		n >= 300 && (fates[plan.Gone] < n || min(fates[plan.Stuck], fates[plan.Freed]) < n/5 || uncertain+late > fates[plan.Gone]/8) {
		t.Error("the graphs show too little, or too little is certain")
	}
}

// draw draws what newWorld does not: finalizers that let dependents stay, and a reference to an object that was created
// later, or to the object itself. It draws one such reference at most: upstream's collector retries an object that it has
// failed on only after a delay, while others lose their references.
func (w *foretold) draw(random *rand.Rand, exists func(int) bool) {
	for _, o := range w.objects {
		o.orphans = random.IntN(12) == 0
	}
	i := random.IntN(len(w.objects))
	j := i + random.IntN(len(w.objects)-i)
	a, b := w.objects[i], w.objects[j]
	if random.IntN(3) > 0 || !exists(j) || b.ns != "" && b.ns != a.ns || slices.ContainsFunc(a.refs, func(r reference) bool { return r.owner == j }) {
		return
	}
	yes := true
	a.refs = append(a.refs, reference{owner: j, apiVersion: b.kind.gvr.GroupVersion().String(), kind: b.kind.kind, name: b.name, block: &yes})
	w.later = a
}

// change gives the objects that are left what was drawn.
func (s *side) change(ctx context.Context, w *foretold) error {
	for i, th := range w.objects {
		if !th.orphans && th != w.later {
			continue
		}
		client := s.dyn.Resource(th.kind.gvr).Namespace(th.ns)
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			o, err := client.Get(ctx, th.name, metav1.GetOptions{})
			if err != nil || o.GetDeletionTimestamp() != nil {
				return err
			}
			wanted := w.object(i, s.uids[w.number])
			o.SetFinalizers(wanted.GetFinalizers())
			if refs := wanted.GetOwnerReferences(); th == w.later {
				o.SetOwnerReferences(append(o.GetOwnerReferences(), refs[len(refs)-1]))
			}
			_, err = client.Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// objects returns what is there of the worlds.
func (s *side) objects(ctx context.Context) (map[types.UID]*unstructured.Unstructured, error) {
	made, there := map[types.UID]bool{}, map[types.UID]*unstructured.Unstructured{}
	for _, uids := range s.uids {
		for _, uid := range uids {
			made[uid] = true
		}
	}
	var failed error
	eachKind(func(k *kind) {
		list, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = err
			return
		}
		for i := range list.Items {
			if o := &list.Items[i]; made[o.GetUID()] {
				there[o.GetUID()] = o
			}
		}
	})
	return there, failed
}

func sameVersion(a, b *unstructured.Unstructured) bool {
	return a.GetResourceVersion() == b.GetResourceVersion()
}

// rest waits until the collector has done all that it has to do, and returns what is there then.
func (s *side) rest(t *testing.T) (there map[types.UID]*unstructured.Unstructured) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		was, err := s.objects(ctx)
		if err != nil {
			return false, err
		}
		s.mustWork(t)
		there, err = s.objects(ctx)
		return maps.EqualFunc(was, there, sameVersion), err
	})
	if err != nil {
		t.Fatalf("the collector does not come to rest: %v", err)
	}
	return there
}

// choose draws what is deleted, rather something that owns something, and how; false if nothing is left.
func (w *foretold) choose(random *rand.Rand, s *side, there map[types.UID]*unstructured.Unstructured) bool {
	w.policy = []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, "",
	}[random.IntN(5)]
	var all, owners []int
	for i, uid := range s.uids[w.number] {
		if o := there[uid]; o == nil || o.GetDeletionTimestamp() != nil {
			continue
		}
		all = append(all, i)
		if slices.ContainsFunc(s.uids[w.number], func(other types.UID) bool {
			return there[other] != nil && slices.ContainsFunc(there[other].GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid })
		}) {
			owners = append(owners, i)
		}
	}
	if len(owners) > 0 {
		all = owners
	}
	if len(all) == 0 {
		return false
	}
	i := all[random.IntN(len(all))]
	w.of, w.target = w.objects[i].kind, there[s.uids[w.number][i]]
	return true
}

// ask has the program foretell the same.
func (w *foretold) ask(t *testing.T, s *side) {
	t.Helper()
	cascade := strings.ToLower(string(w.policy))
	if cascade == "" {
		cascade = "default"
	}
	cmd := program.Command([]string{"HOME=" + t.TempDir()}, "plan", "delete", w.of.gvr.GroupResource().String()+"/"+w.target.GetName(),
		"-n", w.target.GetNamespace(), "--cascade="+cascade, "-o", "json", "--kubeconfig", s.kubeconfig)
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(cmd.Path), err)
	}
	var p report.Plan
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	if p.Basis.Source != report.FromListing || p.Basis.Rules != report.RulesOfKubernetes || len(p.Objects) != len(w.plan.Objects) {
		t.Fatalf("the program foretells for %d objects, not for %d: %s", len(p.Objects), len(w.plan.Objects), raw)
	}
	for _, o := range p.Objects {
		if of := w.fates[o.Object.UID]; of == nil || o.Fate != string(of.Fate) || o.Uncertain != of.Uncertain || len(o.Loses) != len(of.Loses) {
			t.Errorf("the program foretells another fate: %+v", o)
		}
	}
}

// compare returns where the outcome differs from the plan. Changes that come only when upstream's collector retries a
// failure are neither awaited nor compared.
func (w *foretold) compare(s *side, before, now map[types.UID]*unstructured.Unstructured) (wrong []string) {
	for i, uid := range s.uids[w.number] {
		was, is, o := before[uid], now[uid], w.fates[uid]
		if was == nil {
			continue
		}
		if o == nil {
			o = &plan.Object{Fate: plan.Unchanged}
		}
		if o.Uncertain || o.At > 0 {
			continue
		}
		say := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("object %d is foretold %s (%s, %s): ", i, o.Fate, o.Reason, o.Held)+fmt.Sprintf(format, args...))
		}
		switch {
		case (is == nil) != (o.Fate == plan.Gone):
			say("it is there: %v", is != nil)
		case is == nil:
		case (is.GetDeletionTimestamp() != nil) != (o.Fate == plan.Stuck || was.GetDeletionTimestamp() != nil):
			say("it is deleted: %v", is.GetDeletionTimestamp())
		default:
			if lost := len(was.GetOwnerReferences()) - len(is.GetOwnerReferences()); lost != len(o.Loses) {
				say("it has lost %d references, not %d", lost, len(o.Loses))
			}
			free := 0
			for _, r := range is.GetOwnerReferences() {
				if blocks(r) {
					continue
				}
				if slices.ContainsFunc(was.GetOwnerReferences(), func(had metav1.OwnerReference) bool { return had.UID == r.UID && blocks(had) }) {
					free++
				}
			}
			if free != len(o.Unblocks) {
				say("%d references no longer block, not %d", free, len(o.Unblocks))
			}
		}
	}
	return wrong
}

func blocks(r metav1.OwnerReference) bool {
	return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
}
