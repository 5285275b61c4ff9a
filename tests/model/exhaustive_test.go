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
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/size"
)

var (
	mostStates = flag.Int("model.states", sampleStates, "states to explore of each small world; 0 for all; -short takes 1000 at the most")
	onlyWorlds = flag.String("model.world", "", "explore only the small worlds whose names contain this")
)

// smallWorld is explored in every order. Its objects exist when the collector starts. Its users act in any
// interleaving, each following a script.
type smallWorld struct {
	name    string
	objects []action
	scripts [][]action
	// mirrored serves the owner's storage under its second name too.
	mirrored bool
	// kinds are the served kinds; nil for all, or for all but the mirrors.
	kinds []*kind
	// rested is true if the world comes to rest before its users act, except that rings are not broken.
	rested bool
	// looks is true if the collector may search for rings at any time, not only in the end.
	looks bool
	// blind is true if the collector never searches for rings.
	blind bool
	// timeouts is true if foreground deletions time out.
	timeouts bool
}

// explorer walks the states of a small world depth first. The graph cannot be copied: for
// another branch, the explorer repeats the steps that lead to it.
type explorer struct {
	smallWorld
	seen     map[state]bool
	prelude  []action // the steps that bring the world to rest first
	path     []action
	most     int
	declared []graph.Reference
	ends     int
	taken    int // steps that were tried, not counting repetitions
	// stale counts the ends that may differ from the oracle until time has passed.
	stale int
	r     *rand.Rand
}

func explore(w smallWorld, most int) (*explorer, error) {
	e := &explorer{smallWorld: w, seen: map[state]bool{}, most: most, r: rand.New(rand.NewPCG(7, 8))}
	for _, script := range append(slices.Clone(w.scripts), w.objects) {
		for _, a := range script {
			for _, r := range a.refs {
				if !slices.Contains(e.declared, r) {
					e.declared = append(e.declared, r)
				}
			}
		}
	}
	if w.rested {
		m, _ := e.start()
		m.detects, m.record = false, &e.prelude
		m.settle()
	}
	m, positions := e.start()
	return e, e.visit(m, positions)
}

func (e *explorer) start() (*model, []int) {
	m := newModel(1, 0)
	// A stream without objects would only multiply the orders.
	m.server.served[mirrors] = e.mirrored
	if e.kinds != nil {
		for _, k := range allKinds {
			m.server.served[k] = slices.Contains(e.kinds, k)
		}
	}
	for _, a := range e.objects {
		if !m.apply(a) {
			panic("cannot " + a.String())
		}
	}
	m.detects = !e.blind
	if e.timeouts {
		m.timeout = smallTimeout
	}
	m.resync()
	for _, a := range e.prelude {
		m.apply(a)
	}
	return m, make([]int, len(e.scripts))
}

// take takes a step. If a user's object is gone, the user continues with the next action.
func (e *explorer) take(m *model, positions []int, a action) {
	if a.op == opUser {
		m.apply(e.scripts[a.n][positions[a.n]])
		positions[a.n]++
		return
	}
	m.apply(a)
}

// opUser stands for the next action of script n.
const opUser op = "user"

// steps returns every step that is possible now.
func (e *explorer) steps(m *model, positions []int) (next []action) {
	for n, p := range positions {
		if p < len(e.scripts[n]) {
			next = append(next, action{op: opUser, n: n})
		}
	}
	unsynced := false
	for _, mon := range m.monitors {
		if len(mon.stream) > 0 {
			next = append(next, action{op: opDeliver, kind: mon.kind})
		}
		if mon.draining {
			next = append(next, action{op: opRetire, kind: mon.kind})
		}
		if (mon.broken || mon.deceived) && mon.running && !mon.draining && m.server.served[mon.kind] {
			next = append(next, action{op: opRelist, kind: mon.kind, n: len(mon.stream)})
		}
		unsynced = unsynced || mon.kind.Monitored && m.server.served[mon.kind] != (mon.running && !mon.draining) || mon.forgettable()
	}
	if unsynced {
		next = append(next, action{op: opResync})
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(m.timers)), func(t time.Time) bool { return t.Sub(m.now) <= time.Second }) {
		next = append(next, action{op: opPause, n: 4})
	}
	if e.looks && m.canLook() {
		next = append(next, action{op: opLook})
	}
	if m.breaking != nil {
		for n := range m.breaking.choices() {
			next = append(next, action{op: opBreak, n: n})
		}
	}
	if m.timeout.Base > 0 {
		for _, k := range m.waiting() {
			if m.deadline(k).After(m.now) {
				next = append(next, action{op: opExpire, key: k})
			}
		}
	}
	if m.workers[0] != nil {
		return append(next, action{op: opStep})
	}
	for _, keys := range []map[graph.Key]bool{m.queue, m.delayed} {
		for _, k := range sortedKeys(keys) {
			next = append(next, action{op: opBegin, key: k})
		}
	}
	for _, keys := range []map[graph.Key]bool{m.orphans, m.orphansDelayed} {
		for _, k := range sortedKeys(keys) {
			next = append(next, action{op: opOrphan, key: k})
		}
	}
	return next
}

func (e *explorer) visit(m *model, positions []int) error {
	if m.wrong != nil {
		return e.failed(m.wrong)
	}
	s := stateOf(m, positions, e.declared)
	if e.seen[s] || e.most > 0 && len(e.seen) >= e.most {
		return nil
	}
	e.seen[s] = true
	if m.check(); m.wrong != nil {
		return e.failed(m.wrong)
	}
	next := e.steps(m, positions)
	// If the search is cut short, it should not have tried one corner only.
	e.r.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	if len(next) == 0 {
		return e.end(m)
	}
	for i, a := range next {
		if i > 0 {
			m, positions = e.start()
			for _, before := range e.path {
				e.take(m, positions, before)
			}
		}
		e.path = append(e.path, a)
		e.taken++
		e.take(m, positions, a)
		if err := e.visit(m, positions); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	return nil
}

// end judges a world in which no step is possible any more.
func (e *explorer) end(m *model) error {
	e.ends++
	switch {
	case !m.plain || e.loses():
	case m.stale:
		e.stale++
	default:
		if err := m.compare(); err != nil {
			return e.failed(err)
		}
	}
	m.settle()
	m.elapse()
	if err := m.compare(); err != nil {
		return e.failed(err)
	}
	return nil
}

// loses reports whether events may be lost in a world. Then a read sent before an owner's deletion may be
// believed for decide.RecheckAfter, because nothing shows that it is stale.
func (e *explorer) loses() bool {
	return slices.ContainsFunc(slices.Concat(e.scripts...), func(a action) bool {
		return a.op == opPurge || a.op == opUnserve || a.op == opRelist
	})
}

func (e *explorer) failed(err error) error {
	positions := make([]int, len(e.scripts))
	var b strings.Builder
	for _, a := range e.objects {
		fmt.Fprintf(&b, "\n  %s", a)
	}
	for _, a := range e.path {
		if a.op == opUser {
			fmt.Fprintf(&b, "\n  user: %s", e.scripts[a.n][positions[a.n]])
			positions[a.n]++
			continue
		}
		fmt.Fprintf(&b, "\n  %s", a)
	}
	return fmt.Errorf("%w\nhistory:%s", err, b.String())
}

// cut reports whether the search of a world ended before every state was seen.
func (e *explorer) cut() bool { return e.most > 0 && len(e.seen) >= e.most }

// largeWorlds are the small worlds with more than mostInGate states. Together they have more than three quarters of all states, and
// are searched with --release only.
var largeWorlds = []string{
	"three, each deleted in any order",
	"timeout, the dependent goes, and another comes in its place",
	"two rings that share a member",
	"not blocking, owner goes (Foreground), while the dependent's kind hides",
	"misnamed, owner goes (Foreground), while the dependent's kind hides",
	"blocking, owner goes (Foreground), while the dependent's kind hides",
	"timeout, a pair that is broken before or after",
	"beside a solid owner, owner goes (Foreground), while the dependent's kind hides",
	"three, each deleted, first the owner",
	"three, each deleted, first the dependent",
	"pair that waits, a third comes between",
	"pair that waits, it is opened elsewhere before it is closed",
	"right and misnamed, the owner's kind hides for a while, with a dependent of the dependent",
	"beside a solid owner, owner goes (Foreground), while the namespace ends",
	"pair that waits, its kind hides",
	"beside a solid owner, owner goes (Orphan), while the dependent's kind hides",
	"beside an unknown one, owner goes (Foreground), while the dependent's kind hides",
	"beside a solid owner, owner goes (Orphan), while the namespace ends",
	"pair that waits, both are given up",
	"three, two deleted, the first holds the second",
	"misnamed, owner goes (Orphan), while the dependent's kind hides",
	"beside an unknown one, owner goes (Orphan), while the dependent's kind hides",
	"three, two deleted, the second holds the first",
	"right and misnamed, the owner's kind hides for a while",
	"right and misnamed, dependent is made anew while its owner goes, with a dependent of the dependent",
	"pair that waits, it is opened and closed",
	"timeout, an empty list",
	"beside a solid owner, owner goes (Foreground), while a list is empty",
	"beside an unknown one, owner goes (Orphan), while the namespace ends",
	"not blocking, owner goes (Foreground), while the namespace ends",
	"not blocking, owner goes (Orphan), while the dependent's kind hides",
	"blocking, owner goes (Orphan), while the dependent's kind hides",
	"pair that waits, events are lost",
	"beside a solid owner, owner goes (Foreground), while the dependent is held",
	"misnamed, owner goes (Orphan), while the namespace ends",
	"blocking, owner goes (Foreground), while the namespace ends",
	"mirrored, the owner's kind hides for a while",
	"not blocking, owner goes (Orphan), while the namespace ends",
	"blocking, owner goes (Orphan), while the namespace ends",
	"right and misnamed, the owner's kind hides, with a dependent of the dependent",
	"two owners, the owner's kind hides for a while",
	"misnamed and solid, the owner's kind hides for a while",
	"mirrored, owner goes while a user gives another",
	"beside a solid owner, owner goes (Foreground), held by somebody",
	"right, the owner's kind hides for a while, with a dependent of the dependent",
	"right and misnamed, owner goes while a user gives another, with a dependent of the dependent",
	"timeout, somebody else lets the owner go",
	"beside a solid owner, owner goes (Foreground), while another dependent comes",
	"beside an unknown one, owner goes (Foreground), while the namespace ends",
	"beside a solid owner, owner goes (Foreground), while the other owner goes",
	"beside a solid owner, owner goes (Orphan), while a list is empty",
	"other kind, the owner's kind hides for a while",
	"beside a solid owner, owner goes (Foreground), while the dependent is deleted so that its own stay",
	"beside a solid owner, owner goes (Orphan), while the dependent is held",
	"beside a solid owner, owner goes (Orphan), held by somebody",
	"pair that waits, one is to leave its own behind",
	"three, one deleted",
	"misnamed and solid, an empty list",
	"other kind, an empty list",
	"beside a solid owner, owner goes (Foreground), while the dependent gets another owner",
	"beside a solid owner, owner goes (Orphan), while the dependent is deleted so that its own stay",
	"three, all deleted when the collector starts",
	"not blocking, owner goes (Foreground), while a list is empty",
	"right and misnamed, dependent is made anew while its owner goes",
	"beside a solid owner, owner goes (Foreground), then so that they stay",
	"misnamed, owner goes (Foreground), while the namespace ends",
	"right and misnamed, the namespace ends, with a dependent of the dependent",
	"pair with a tail out of it",
	"misnamed, owner goes (Orphan), while the dependent is held",
	"beside a solid owner, owner goes (Foreground), then in the background",
	"beside a solid owner, owner goes (Foreground), and the finalizer goes",
	"right and misnamed, owner goes while a user gives another",
	"mirrored, dependent is made anew while its owner goes",
	"beside an unknown one, owner goes (Orphan), while the dependent is held",
	"beside an unknown one, owner goes (Orphan), held by somebody",
	"beside a solid owner, owner goes (Orphan), while another dependent comes",
}

const mostInGate = 5000

// TestEveryOrderOfStepsInSmallWorlds visits every state of every small world, in the gate without the large ones. It
// reaches each state by every order of steps, and continues from it once. If the number of states is limited, as with the
// race detector and -short, the summary says how many worlds were cut short.
func TestEveryOrderOfStepsInSmallWorlds(t *testing.T) {
	most := *mostStates
	if testing.Short() && (most == 0 || most > 1000) {
		most = 1000
	}
	var worlds []smallWorld
	left := 0 // for --release
	// Worlds with the most states come first, so that none of them is left for the end.
	for _, w := range slices.Concat(ringWorlds(), smallWorlds(), policyWorlds(), timeoutWorlds()) {
		switch {
		case !strings.Contains(w.name, *onlyWorlds):
		case most == 0 && *onlyWorlds == "" && size.Of(true, true, false) && slices.Contains(largeWorlds, w.name):
			left++
		default:
			worlds = append(worlds, w)
		}
	}
	queue := make(chan smallWorld)
	var wg sync.WaitGroup
	var mu sync.Mutex // protects the totals
	states, steps, ends, stale, cut := 0, 0, 0, 0, 0
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for w := range queue {
				e, err := explore(w, most)
				switch {
				case err != nil:
					t.Errorf("%s: %v", w.name, err)
				case e.ends == 0 && !e.cut():
					t.Errorf("%s: it never comes to rest", w.name)
				case !e.cut() && (len(e.seen) > mostInGate) != slices.Contains(largeWorlds, w.name):
					t.Errorf("%s: it has %d states; largeWorlds should list it if these are more than %d, and only then", w.name, len(e.seen), mostInGate)
				}
				mu.Lock()
				states += len(e.seen)
				stale += e.stale
				steps += e.taken
				ends += e.ends
				if e.cut() {
					cut++
				}
				mu.Unlock()
			}
		})
	}
	for _, w := range worlds {
		queue <- w
	}
	close(queue)
	wg.Wait()
	size.Power(t, fmt.Sprintf("worlds=%d left=%d cut=%d states=%d steps=%d ends=%d stale=%d", len(worlds), left, cut, states, steps, ends, stale))
	if stale > ends/staleAtMost && *onlyWorlds == "" {
		t.Errorf("%d of %d ends may differ from the oracle until time has passed", stale, ends)
	}
}
