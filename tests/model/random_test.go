package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var (
	searchTime = flag.Duration("model.time", 45*time.Second, "how long to search random worlds; -short takes a tenth")
	searchSeed = flag.Uint64("model.seed", 0, "try only the random world of this seed")
)

// world says what a random world is made of.
type world struct {
	seed            uint64
	objects, steps  int
	workers         int
	lossless        bool // no event is lost, nothing fails, every kind stays
	checkEvery      int
	namespaces      []string
	bogus, wrong    int // of a hundred references
	relist, catalog int // of a thousand steps
	fault           int // of a hundred calls
	policies        int // of a hundred deletions, those that are not in the background
	blocking        int // of a hundred references
}

// worldOf draws a world from its seed. Most are small: there the search is dense.
func worldOf(seed uint64) world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := world{
		seed: seed, objects: 2 + r.IntN(8), workers: 1 + r.IntN(3), checkEvery: 1, namespaces: []string{"m", "n"},
		lossless: r.IntN(3) == 0, bogus: r.IntN(20), wrong: r.IntN(50), relist: r.IntN(60), catalog: r.IntN(30), fault: r.IntN(6),
	}
	if r.IntN(3) > 0 {
		w.policies, w.blocking = 10+r.IntN(80), r.IntN(90)
	}
	w.steps = 50 + r.IntN(250)
	if r.IntN(1000) == 0 {
		w.objects, w.steps, w.checkEvery = 1000+r.IntN(3000), 20_000, 5000
		w.relist, w.catalog, w.workers = r.IntN(3), r.IntN(2), 8
	}
	return w
}

// TestRandomWorlds searches random worlds until its time is up.
func TestRandomWorlds(t *testing.T) {
	if *searchSeed != 0 {
		tryWorld(t, *searchSeed)
		return
	}
	limit := *searchTime
	if testing.Short() {
		limit /= 10
	}
	first := uint64(time.Now().UnixNano())
	var next, deletes, drops, releases, orphanings, frees atomic.Uint64
	stop := time.Now().Add(limit)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for time.Now().Before(stop) && !t.Failed() {
				m := tryWorld(t, first+next.Add(1))
				deletes.Add(uint64(m.deletes))
				drops.Add(uint64(m.drops))
				releases.Add(uint64(m.releases))
				orphanings.Add(uint64(m.orphanings))
				frees.Add(uint64(m.frees))
			}
		})
	}
	wg.Wait()
	t.Logf("%d worlds, %d deletes, %d drops, %d foreground deletions and %d orphanings ended, %d dependents freed",
		next.Load(), deletes.Load(), drops.Load(), releases.Load(), orphanings.Load(), frees.Load())
	if n := next.Load(); n > 1000 && (deletes.Load() < n || min(drops.Load(), releases.Load(), orphanings.Load(), frees.Load()) < n/20) {
		t.Error("little was collected: the search is blind")
	}
}

// TestLargeWorlds has thousands of objects each.
func TestLargeWorlds(t *testing.T) {
	n := uint64(4)
	if testing.Short() {
		n = 1
	}
	for seed := range n {
		w := worldOf(seed + 1)
		w.objects, w.steps, w.checkEvery, w.workers = 4000, 20_000, 5000, 8
		w.relist, w.catalog, w.lossless = 2, 1, seed%2 == 1
		run(t, w)
	}
}

func tryWorld(t *testing.T, seed uint64) *model { return run(t, worldOf(seed)) }

// run lives through a world; a failure is cut down to a short history.
func run(t *testing.T, w world) *model {
	g := &generator{world: w, r: rand.New(rand.NewPCG(w.seed, 1))}
	m := newModel(w.workers, w.checkEvery)
	var history []action
	for len(history) < w.steps && m.wrong == nil {
		if a := g.next(m); m.apply(a) {
			history = append(history, a)
		}
	}
	err := conclude(m, w)
	if err == nil {
		return m
	}
	if w.objects < 100 {
		history, err = shrink(history, err, w)
	} else {
		history = nil
	}
	var b strings.Builder
	for _, a := range history {
		fmt.Fprintf(&b, "\n  %s", a)
	}
	t.Errorf("world %+v: %v\nhistory:%s\n(again: -run TestRandomWorlds -model.seed=%d)", w, err, b.String(), w.seed)
	return m
}

// conclude brings a world to rest and judges it.
func conclude(m *model, w world) error {
	m.settle()
	if w.lossless && m.plain && !m.stale {
		if err := m.compare(); err != nil {
			return fmt.Errorf("before any time has passed: %w", err)
		}
	}
	m.elapse()
	return m.compare()
}

// shrink takes out of a history whatever the failure does not need.
func shrink(history []action, err error, w world) ([]action, error) {
	for size := len(history) / 2; size > 0; {
		removed := false
		for from := 0; from+size <= len(history); {
			shorter := slices.Delete(slices.Clone(history), from, from+size)
			if again := replay(shorter, w); again != nil {
				history, err, removed = shorter, again, true
			} else {
				from += size
			}
		}
		if !removed || size > 1 {
			size /= 2
		}
	}
	return history, err
}

func replay(history []action, w world) error {
	m := newModel(w.workers, w.checkEvery)
	for _, a := range history {
		m.apply(a)
	}
	return conclude(m, w)
}

// generator draws the steps of a world.
type generator struct {
	world
	r    *rand.Rand
	made int
	// ever holds every object that there was: references may go to any.
	ever []object
}

func one[T any](g *generator, from []T) T { return from[g.r.IntN(len(from))] }

func (g *generator) chance(n, of int) bool { return g.r.IntN(of) < n }

func (g *generator) next(m *model) action {
	if len(m.server.objects) < g.objects && g.made < 3*g.objects && (g.made < g.objects || g.chance(1, 20)) {
		return g.create()
	}
	if !g.lossless && g.chance(g.relist, 1000) {
		return action{op: opRelist, kind: one(g, allKinds), n: g.r.IntN(4), held: g.chance(1, 4)}
	}
	if !g.lossless && g.chance(g.catalog, 1000) {
		return action{op: one(g, []op{opPurge, opUnserve, opServe, opServe, opServe, opServe}), kind: one(g, allKinds)}
	}
	switch c := g.r.IntN(100); {
	case c < 6:
		return action{op: opDelete, uid: g.any().uid, policy: g.policy()}
	case c < 10:
		o := g.any()
		return action{op: opEdit, uid: o.uid, refs: g.references(o.namespace)}
	case c < 12:
		return action{op: opRelease, uid: g.any().uid}
	case c < 13:
		return action{op: opHold, uid: g.any().uid}
	case c < 14 && g.policies > 0:
		return action{op: []op{opStrip, opPause, opPause, opPause}[g.r.IntN(4)], uid: g.any().uid, n: 1 + g.r.IntN(4)}
	case c < 15:
		return action{op: opResync}
	case c < 16:
		return action{op: opRetire, kind: one(g, allKinds)}
	case c < 17:
		if !g.lossless && g.chance(1, 3) {
			return action{op: opSweep, kind: one(g, allKinds)}
		}
		if g.chance(2, 3) {
			return action{op: opPause, n: 1 + g.r.IntN(8)}
		}
		return action{op: opTick, n: g.r.IntN(20)}
	case c < 55:
		return action{op: opDeliver, kind: one(g, allKinds)}
	}
	n := g.r.IntN(len(m.workers))
	if m.workers[n] != nil {
		return action{op: opStep, n: n, held: !g.lossless && g.chance(g.fault, 100)}
	}
	if len(m.orphans)+len(m.orphansDelayed) > 0 && g.chance(1, 2) {
		keys := m.orphans
		if len(keys) == 0 || g.chance(1, 8) {
			keys = m.orphansDelayed
		}
		if len(keys) > 0 {
			return action{op: opOrphan, n: n, key: one(g, sortedKeys(keys))}
		}
	}
	keys := m.queue
	if len(keys) == 0 || g.chance(1, 8) {
		keys = m.delayed
	}
	if len(keys) == 0 {
		return action{op: opDeliver, kind: one(g, allKinds)}
	}
	if len(keys) > 50 { // sorting thousands at each step would be the whole cost
		least := graph.Key{}
		for k := range keys {
			if least.UID == "" || k.UID < least.UID || k.UID == least.UID && k.Resource.String() < least.Resource.String() {
				least = k
			}
		}
		return action{op: opBegin, n: n, key: least}
	}
	return action{op: opBegin, n: n, key: one(g, sortedKeys(keys))}
}

// policy draws how a user deletes, or which finalizer he sets.
func (g *generator) policy() policy {
	if !g.chance(g.policies, 100) {
		return []policy{background, ""}[g.r.IntN(2)]
	}
	return []policy{foreground, foreground, orphan}[g.r.IntN(3)]
}

func (g *generator) any() object {
	if len(g.ever) == 0 {
		return object{}
	}
	return one(g, g.ever)
}

func (g *generator) create() action {
	kinds := []*kind{alphas, alphas, betas, betas, gammas, shadows}
	if g.lossless {
		kinds = kinds[:5] // what nothing watches is only looked at as time passes
	}
	k := one(g, kinds)
	a := action{op: opCreate, kind: k, uid: types.UID(fmt.Sprintf("u%d", g.made)), name: fmt.Sprintf("o%d", g.r.IntN(2*g.objects)), held: g.chance(1, 12)}
	if k.Namespaced {
		a.namespace = one(g, g.namespaces)
	}
	a.refs = g.references(a.namespace)
	if g.chance(1, 20) {
		a.policy = g.policy()
	}
	g.made++
	g.ever = append(g.ever, object{storage: k.storage, namespace: a.namespace, name: a.name, uid: a.uid})
	return a
}

// references draws what an object in a namespace declares: mostly right, to what
// exists or once did.
func (g *generator) references(namespace string) (refs []graph.Reference) {
	n := one(g, []int{0, 1, 1, 1, 2, 2, 3})
	for range n {
		if len(g.ever) == 0 || g.chance(g.bogus, 100) {
			k := one(g, allKinds)
			refs = append(refs, reference(k, one(g, k.Versions), object{name: "nobody", uid: types.UID(fmt.Sprintf("bogus%d", g.r.IntN(3)))}))
			continue
		}
		o := g.any()
		for range 4 { // owners in the same namespace are the rule
			if o.namespace == namespace || o.namespace == "" {
				break
			}
			o = g.any()
		}
		k := one(g, kindsOf(o.storage))
		ref := reference(k, one(g, k.Versions), o)
		if g.chance(g.wrong, 100) {
			switch g.r.IntN(6) {
			case 0:
				ref.Name = g.any().name
			case 1:
				ref.APIVersion = k.Group + "/v9"
			case 2:
				ref.Kind = "Nonsense"
			case 3:
				ref.APIVersion = "a/b/c"
			case 4:
				other := one(g, allKinds)
				ref = reference(other, other.Versions[0], o)
			case 5:
				ref.UID = g.any().uid
			}
		}
		if g.chance(max(g.blocking, 20), 100) {
			ref.BlockOwnerDeletion = graph.True
		}
		refs = append(refs, ref)
	}
	return refs
}

func kindsOf(storage string) (kinds []*kind) {
	for _, k := range allKinds {
		if k.storage == storage {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// reference names an object under a kind.
func reference(k *kind, version string, o object) graph.Reference {
	apiVersion := version
	if k.Group != "" {
		apiVersion = k.Group + "/" + version
	}
	return graph.Reference{APIVersion: apiVersion, Kind: k.Kind, Name: o.name, UID: o.uid}
}

// TestOracleSeesWhatIsThere: a world in which nothing collects must not pass.
func TestOracleSeesWhatIsThere(t *testing.T) {
	m := newModel(1, 1)
	owner := object{namespace: "n", name: "o", uid: "o"}
	for _, a := range []action{
		{op: opCreate, kind: betas, uid: "o", namespace: "n", name: "o"},
		{op: opCreate, kind: alphas, uid: "d", namespace: "n", name: "d", refs: []graph.Reference{reference(betas, "v1", owner)}},
		{op: opDelete, uid: "o"},
	} {
		if !m.apply(a) {
			t.Fatalf("cannot %s", a)
		}
	}
	if m.compare() == nil {
		t.Error("a dangling object may stay")
	}
	m.settle()
	m.elapse()
	if err := m.compare(); err != nil || m.deletes != 1 {
		t.Errorf("%d deletes; %v", m.deletes, err)
	}
	left := maps.Clone(m.server.objects)
	m.users["x"] = &object{storage: "alphas", uid: "x"}
	if errs := m.truth(m.users, m.now).compare(left); len(errs) != 1 {
		t.Errorf("a lost object makes %v", errs)
	}
}
