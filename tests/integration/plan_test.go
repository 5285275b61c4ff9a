package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/tests/size"
)

// planned is a random graph in a namespace of its own, and a deletion in it.
type planned struct {
	ns      string
	objects []*unstructured.Unstructured
	kinds   map[types.UID]kind
	targets []*unstructured.Unstructured
	policy  metav1.DeletionPropagation
	plan    report.Plan
	timeout time.Duration // of foreground deletions
}

// foretell asks the collector what deleting objects would do.
func (s *server) foretell(t *testing.T, kinds map[types.UID]kind, policy metav1.DeletionPropagation, targets ...*unstructured.Unstructured) (p report.Plan) {
	t.Helper()
	r := s.kube.Discovery().RESTClient().Get().AbsPath(report.Root+"plan").Param("limit", "0").Param("policy", string(policy))
	for _, o := range targets {
		r.Param("object", kinds[o.GetUID()].gvr.GroupResource().String()+"/"+string(o.GetUID()))
	}
	raw, err := r.Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	fromJSON(t, string(raw), &p)
	return p
}

// TestPlans foretells deletions in random graphs, hundreds of them before a release, makes them, and holds what the
// server shows in the end against what was foretold.
func TestPlans(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	graphs := size.Of(20, 40, 120) / slowness
	// Far longer than the collector needs for what nothing holds, however busy the machine: a plan does not foretell that it is late.
	timeout := size.Of[time.Duration](5, 10, 30) * time.Second
	s := start(t, "--gc-sync-timeout="+timeout.String(), "--gc-sync-timeout-per-dependent=10ms")
	parts, _ := s.define(t, "Namespaced", "parts", "Part")
	worlds, _ := s.define(t, "Cluster", "worlds", "World")
	kinds := []kind{configMaps, secrets, parts, worlds}

	random := rand.New(rand.NewPCG(seed, 0))
	var all []*planned
	for i := range graphs {
		g := s.growRandom(t, random, kinds, i)
		g.timeout = timeout
		all = append(all, g)
	}
	look := func(ctx context.Context) (map[types.UID]*unstructured.Unstructured, map[types.UID]string, error) {
		objects, versions := map[types.UID]*unstructured.Unstructured{}, map[types.UID]string{}
		for _, k := range kinds {
			list, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, nil, err
			}
			for i := range list.Items {
				o := &list.Items[i]
				objects[o.GetUID()], versions[o.GetUID()] = o, o.GetResourceVersion()
			}
		}
		return objects, versions, nil
	}
	// What dangles from the beginning goes first.
	var before map[types.UID]string
	var there map[types.UID]*unstructured.Unstructured
	await(t, "the collector to rest", func(ctx context.Context) (bool, any) {
		s.foregroundBarrier(t, configMaps, all[0].ns)
		was := before
		var err error
		there, before, err = look(ctx)
		return err == nil && was != nil && maps.Equal(was, before), err
	})
	for _, g := range all {
		g.choose(random, there)
		if len(g.targets) > 0 {
			g.plan = s.foretell(t, g.kinds, g.policy, g.targets...)
		}
	}
	if _, after, err := look(t.Context()); err != nil || !maps.Equal(before, after) {
		t.Fatalf("plans have changed resourceVersions: %v", err)
	}

	version := s.version(t, configMaps)
	var recordings []*recording
	for _, k := range kinds {
		recordings = append(recordings, s.recordFrom(t, k, "", version))
	}
	for _, g := range all {
		for _, o := range g.targets {
			var options metav1.DeleteOptions
			if g.policy != "" {
				options.PropagationPolicy = &g.policy
			}
			// The collector may have taken it with the one before.
			err := s.dyn.Resource(g.kinds[o.GetUID()].gvr).Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), options)
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
	}
	fates := map[string]int{}
	await(t, "all to come as it was foretold", func(ctx context.Context) (bool, any) {
		now, _, err := look(ctx)
		if err != nil {
			return false, err
		}
		var wrong []string
		clear(fates)
		for _, g := range all {
			wrong = append(wrong, g.compare(now, fates)...)
		}
		return len(wrong) == 0, strings.Join(wrong, "\n")
	})
	t.Logf("fates: %v", fates)
	if fates["gone"] < graphs || graphs > 10 && fates["freed"] < graphs/10 || graphs >= 60 && fates["stuck"] == 0 {
		t.Errorf("the graphs show too little: %v", fates)
	}
	compared := 0
	await(t, "all ends to be shown", func(context.Context) (bool, any) {
		ends := map[types.UID]int{}
		for _, r := range recordings {
			r.mu.Lock()
			for _, e := range r.events {
				if o := e.Object.(metav1.Object); e.Type == watch.Deleted {
					ends[o.GetUID()], _ = strconv.Atoi(o.GetResourceVersion())
				}
			}
			r.mu.Unlock()
		}
		compared = 0
		for _, g := range all {
			n, err := g.inOrder(ends)
			if err != nil {
				return false, err
			}
			compared += n
		}
		return true, nil
	})
	size.Power(t, fmt.Sprintf("seed=%d graphs=%d gone=%d stuck=%d freed=%d unchanged=%d pairs=%d", seed, graphs,
		fates["gone"], fates["stuck"], fates["freed"], fates["unchanged"], compared))
	if compared < graphs/20 { // ten and more in sixty graphs: how many depends on the seed
		t.Errorf("only %d pairs of ends have an order", compared)
	}
}

// inOrder compares the order of ends, given as resourceVersions, with what was foretold, and returns how many
// pairs that were: a dependent that was deleted since its owner was gone went after it, and one that the
// owner waited for before it.
func (g *planned) inOrder(ends map[types.UID]int) (pairs int, err error) {
	if len(g.targets) > 1 {
		return 0, nil // another deletion may come first
	}
	foretold := map[types.UID]*report.PlannedObject{}
	for i := range g.plan.Objects {
		foretold[g.plan.Objects[i].Object.UID] = &g.plan.Objects[i]
	}
	for _, o := range g.objects {
		p := foretold[o.GetUID()]
		if p == nil || p.Fate != "gone" || p.Uncertain || len(o.GetOwnerReferences()) != 1 {
			continue
		}
		by, block := foretold[p.BecauseOf], o.GetOwnerReferences()[0].BlockOwnerDeletion
		if by == nil || by.Fate != "gone" || by.Uncertain || by.TimedOut || by.Ring > 0 {
			continue
		}
		if p.AfterSeconds >= (g.timeout - time.Second).Seconds() { // timeouts begin at whole seconds
			continue // a deadline below it has passed, and its owner's own may pass at the same moment
		}
		first, second := by, p
		switch {
		case p.Reason == "owner-waiting" && block != nil && *block:
			first, second = p, by
		case p.Reason != "owners-dangling":
			continue
		}
		if first.Step >= second.Step {
			return 0, fmt.Errorf("%s is at step %d, and %s, which follows, at %d", first.Object, first.Step, second.Object, second.Step)
		}
		if a, b := ends[first.Object.UID], ends[second.Object.UID]; a == 0 || b == 0 || a > b {
			return 0, fmt.Errorf("%s ended at %d and %s at %d: the other way round was foretold", first.Object, a, second.Object, b)
		}
		pairs++
	}
	return pairs, nil
}

// growRandom makes a random graph: references go to what exists, some are wrong in one way or another.
func (s *server) growRandom(t *testing.T, random *rand.Rand, kinds []kind, n int) *planned {
	t.Helper()
	g := &planned{ns: s.namespace(t, "plan"), kinds: map[types.UID]kind{}}
	for i := range 4 + random.IntN(12) {
		k := kinds[random.IntN(len(kinds))]
		ns := g.ns
		if k.gvr.Resource == "worlds" {
			ns = ""
		}
		var refs []metav1.OwnerReference
		for range random.IntN(3) {
			if len(g.objects) == 0 {
				break
			}
			o := g.objects[random.IntN(len(g.objects))]
			if ns == "" && o.GetNamespace() != "" && random.IntN(4) > 0 {
				continue
			}
			r := owner(o)
			if random.IntN(3) > 0 {
				r = blocking(o)
			}
			switch random.IntN(20) {
			case 0:
				r.Kind = "Nonsense"
			case 1:
				r.APIVersion = "example.com/v9"
			case 2:
				r.Name = "somebody-else"
			}
			if !slices.ContainsFunc(refs, func(had metav1.OwnerReference) bool { return had.UID == r.UID }) {
				refs = append(refs, r)
			}
		}
		o := object(k, fmt.Sprintf("plan-%d-%d", n, i), refs...)
		switch random.IntN(12) {
		case 0:
			o.SetFinalizers([]string{hold})
		case 1:
			o.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
		}
		made, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		g.objects = append(g.objects, made)
		g.kinds[made.GetUID()] = k
	}
	return g
}

// choose draws what is deleted, and how.
func (g *planned) choose(random *rand.Rand, there map[types.UID]*unstructured.Unstructured) {
	g.policy = []metav1.DeletionPropagation{background, foreground, foreground, orphan, ""}[random.IntN(5)]
	var live []*unstructured.Unstructured
	for _, o := range g.objects {
		if now := there[o.GetUID()]; now != nil && now.GetDeletionTimestamp() == nil {
			live = append(live, now)
		}
	}
	g.objects = live
	if len(live) > 0 {
		g.targets = live[:1] // the oldest, which owns most
	}
	if len(live) > 2 && random.IntN(3) == 0 {
		g.targets = live[:2] // how far the collector has come when the second is deleted is open
	}
}

// compare returns what has not come as it was foretold.
func (g *planned) compare(now map[types.UID]*unstructured.Unstructured, fates map[string]int) (wrong []string) {
	foretold := map[types.UID]*report.PlannedObject{}
	for i := range g.plan.Objects {
		foretold[g.plan.Objects[i].Object.UID] = &g.plan.Objects[i]
	}
	for _, o := range g.objects {
		p, n := foretold[o.GetUID()], now[o.GetUID()]
		name := g.ns + "/" + o.GetName()
		if p == nil {
			p = &report.PlannedObject{Fate: "unchanged"}
		} else {
			fates[p.Fate]++
		}
		if p.Uncertain {
			continue
		}
		switch {
		case (n == nil) != (p.Fate == "gone"):
			wrong = append(wrong, fmt.Sprintf("%s is foretold %s, there: %v", name, p.Fate, n != nil))
		case n == nil:
		case (n.GetDeletionTimestamp() != nil) != (p.Fate == "stuck"):
			wrong = append(wrong, fmt.Sprintf("%s is foretold %s, deleted at %v", name, p.Fate, n.GetDeletionTimestamp()))
		default:
			lost := len(o.GetOwnerReferences()) - len(n.GetOwnerReferences())
			if lost != len(p.Loses) {
				wrong = append(wrong, fmt.Sprintf("%s is foretold to lose %d references, has lost %d", name, len(p.Loses), lost))
			}
		}
	}
	return wrong
}
