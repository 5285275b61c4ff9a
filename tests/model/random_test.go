package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

var (
	searchTime = flag.Duration("model.time", 15*time.Second/slowness, "how long to search random worlds; -short takes a tenth, the long size ten times as long")
	searchSeed = flag.Uint64("model.seed", 0, "try only the random world of this seed")
)

// staleAtMost bounds the share of worlds that may be stale: one in so many. About one
// in twelve is.
const staleAtMost = 5

// world describes a random world.
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
	policies        int // of a hundred deletions, those that are not background deletions
	blocking        int // of a hundred references
	rings           int // of a hundred edits, those that make objects own each other
	blind, timeouts bool
	pauses, ends    bool // the collector is paused at times, and namespaces are deleted
}

// worldOf draws a world from its seed. Most worlds are small, so that the search is
// dense.
func worldOf(seed uint64) world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := world{
		seed: seed, objects: 2 + r.IntN(8), workers: 1 + r.IntN(3), checkEvery: 1, namespaces: []string{"m", "n"},
		lossless: r.IntN(3) == 0, bogus: r.IntN(20), wrong: r.IntN(50), relist: r.IntN(60), catalog: r.IntN(30), fault: r.IntN(6),
	}
	if r.IntN(3) > 0 {
		w.policies, w.blocking = 10+r.IntN(80), r.IntN(90)
	}
	if w.policies > 0 && r.IntN(2) == 0 {
		w.rings = 20 + r.IntN(60)
	}
	w.blind, w.timeouts = r.IntN(4) == 0, r.IntN(3) == 0
	w.pauses, w.ends = r.IntN(3) == 0, r.IntN(4) == 0
	w.steps = 50 + r.IntN(250)
	if r.IntN(1000) == 0 {
		w.objects, w.steps, w.checkEvery = 200+r.IntN(800), 5000, 1000
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
	limit := size.Of(*searchTime/10, *searchTime, *searchTime*5)
	first := uint64(time.Now().UnixNano())
	var next, comparable, stale, steps, deletes, drops, releases, orphanings, frees, unblocks, timedOut, pauses, ends atomic.Uint64
	stop := time.Now().Add(limit)
	t.Run("search", func(t *testing.T) {
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for time.Now().Before(stop) && !t.Failed() {
					w := worldOf(first + next.Add(1))
					m := run(t, w)
					if w.lossless && m.plain {
						comparable.Add(1)
						if m.stale {
							stale.Add(1)
						}
					}
					steps.Add(uint64(m.steps))
					deletes.Add(uint64(m.deletes))
					drops.Add(uint64(m.drops))
					releases.Add(uint64(m.releases))
					orphanings.Add(uint64(m.orphanings))
					frees.Add(uint64(m.frees))
					unblocks.Add(uint64(m.unblocks))
					timedOut.Add(uint64(m.timedOut))
					pauses.Add(uint64(len(m.pauses)))
					ends.Add(uint64(m.ends))
				}
			})
		}
	})
	size.Power(t, fmt.Sprintf("seed=%d worlds=%d steps=%d compared=%d stale=%d", first, next.Load(), steps.Load(), comparable.Load(), stale.Load()))
	t.Logf("%d deletes, %d drops, %d foreground deletions (%d timed out) and %d orphanings ended, %d dependents freed, %d unblocked; %d pauses, %d namespaces ended",
		deletes.Load(), drops.Load(), releases.Load(), timedOut.Load(), orphanings.Load(), frees.Load(), unblocks.Load(), pauses.Load(), ends.Load())
	often, rare := min(drops.Load(), releases.Load(), orphanings.Load(), frees.Load(), pauses.Load()), min(unblocks.Load(), timedOut.Load(), ends.Load())
	if n := next.Load(); n > 500 && (deletes.Load() < n || often < n/20 || rare < n/100) {
		t.Error("little was collected: the search is blind")
	}
	if n := comparable.Load(); n > 50 && stale.Load() > n/staleAtMost {
		t.Errorf("%d of %d worlds may differ from the oracle until time has passed: the search is blind to them", stale.Load(), n)
	}
}

// Each world has thousands of objects.
func TestRulesHoldInLargeWorlds(t *testing.T) {
	// Worlds with an even seed lose no events. Of these, 8, 10, 12 and 16 can be compared with the oracle before any time has passed, too.
	seeds := []uint64{8, 1, 2, 3, 4, 10, 12, 16}[:size.Of(1, 2, 8)]
	steps, deletes, drops, compared := 0, 0, 0, 0
	for _, seed := range seeds {
		w := worldOf(seed)
		w.objects, w.steps, w.checkEvery, w.workers = size.Of(1000, 4000, 4000), size.Of(5000, 20_000, 20_000), 5000, 8
		w.relist, w.catalog, w.lossless = 2, 1, seed%2 == 0
		m := run(t, w)
		steps, deletes, drops = steps+m.steps, deletes+m.deletes, drops+m.drops
		if w.lossless && m.plain && !m.stale {
			compared++
		}
	}
	size.Power(t, fmt.Sprintf("seeds=%v steps=%d deletes=%d drops=%d compared=%d", seeds, steps, deletes, drops, compared))
	if compared == 0 {
		t.Error("no world was compared with the oracle before time had passed")
	}
}

func tryWorld(t *testing.T, seed uint64) *model { return run(t, worldOf(seed)) }

// run takes the steps of a world. If it fails, it shortens the history.
func run(t *testing.T, w world) (m *model) {
	bubble.Test(t, func(t *testing.T) { m = w.live(t) })
	return m
}

func (w world) start() *model {
	timesOut := decide.Timeout{}
	if w.timeouts {
		timesOut = timeout
	}
	m := newReal(w.workers, w.checkEvery, timesOut)
	m.detects = !w.blind
	return m
}

func (w world) live(t *testing.T) *model {
	g := &generator{world: w, r: rand.New(rand.NewPCG(w.seed, 1))}
	m := w.start()
	defer m.close()
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

// shrink removes from a history all steps that the failure does not need.
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
	m := w.start()
	defer m.close()
	for _, a := range history {
		m.apply(a)
	}
	return conclude(m, w)
}

// TestOracleSeesWhatIsThere: a world whose collector does nothing must not pass.
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
