package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

var conformances = flag.Int("model.conformances", 1000/slowness, "in how many random worlds the copies are held to the real code; -short takes a tenth, the long size ten times as many")

// TestCopiesDoWhatTheRealCodeDoes: the exhaustive search needs states that can be compared,
// so it has copies of attempt, orphaner and breaker. Two worlds, one with the copies and one
// with the real code, take the same steps. Their calls must be the same, word by word, and
// so must the outcome.
func TestCopiesDoWhatTheRealCodeDoes(t *testing.T) {
	if *searchSeed != 0 {
		conform(t, worldOf(*searchSeed))
		return
	}
	n := size.Of(*conformances/10, *conformances, *conformances*5)
	first := uint64(time.Now().UnixNano())
	calls := 0
	for i := range n {
		calls += conform(t, worldOf(first+uint64(i)))
		if t.Failed() {
			return
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d worlds=%d calls=%d", first, n, calls))
	if n >= 100 && calls < 5*n {
		t.Error("hardly anything was called for")
	}
}

// twins are two worlds, one with the copies and one with the real code.
type twins struct {
	copied, real *model
	history      []action
	err          error // in what they differ
}

// conform takes the steps of a world with both and returns the number of calls.
func conform(t *testing.T, w world) (calls int) {
	w.workers, w.checkEvery, w.objects = 1, 0, min(w.objects, 10)
	bubble.Test(t, func(t *testing.T) {
		p := &twins{copied: newModel(1, 0), real: w.start()}
		defer p.real.close()
		p.copied.timeout, p.copied.detects = p.real.timeout, p.real.detects
		p.copied.log, p.real.log = &[]string{}, &[]string{}
		g := &generator{world: w, r: rand.New(rand.NewPCG(w.seed, 2))}
		for range min(w.steps, 300) {
			p.take(g.next(p.copied))
		}
		for range 3 {
			p.workOff()
			p.take(action{op: opTick, n: 3})
		}
		if p.err != nil {
			var b strings.Builder
			for _, a := range p.history {
				fmt.Fprintf(&b, "\n  %s", a)
			}
			t.Errorf("%v\nhistory:%s\n(again: -run TestCopiesDoWhatTheRealCodeDoes -model.seed=%d)", p.err, b.String(), w.seed)
		}
		calls = len(*p.real.log)
	})
	return calls
}

// workOff delivers all events and does all pending work.
func (p *twins) workOff() {
	p.take(action{op: opResync})
	for _, mon := range p.copied.monitors {
		for len(mon.stream) > 0 && p.err == nil {
			p.take(action{op: opDeliver, kind: mon.kind})
		}
	}
	work := func() {
		for p.copied.workers[0] != nil && p.err == nil {
			p.take(action{op: opStep})
		}
	}
	work()
	for _, keys := range []map[graph.Key]bool{p.copied.queue, p.copied.delayed} {
		for _, k := range sortedKeys(keys) {
			p.take(action{op: opBegin, key: k})
			work()
		}
	}
	for _, keys := range []map[graph.Key]bool{p.copied.orphans, p.copied.orphansDelayed} {
		for _, k := range sortedKeys(keys) {
			p.take(action{op: opOrphan, key: k})
			work()
		}
	}
	p.take(action{op: opLook})
	for p.copied.breaking != nil && p.err == nil {
		p.take(action{op: opBreak})
	}
}

// take takes a step in both worlds and compares them, unless they differ already.
func (p *twins) take(a action) {
	if p.err != nil {
		return
	}
	if a.op == opLook {
		// A ring that could not be broken is retried after two minutes at most. Small rings
		// come first.
		a.n = 0
		p.take(action{op: opTick, n: 3})
	}
	if p.apply(a) {
		p.history = append(p.history, a)
		p.err = p.differ()
	}
}

// apply takes a step in both worlds. A copy makes a call in one step, from request to answer;
// the real code takes two.
func (p *twins) apply(a action) bool {
	if !p.copied.apply(a) {
		return false
	}
	p.finish()
	if !p.real.apply(a) {
		return true
	}
	a.held = false
	switch a.op {
	case opStep:
		if j := p.real.workers[a.n]; j != nil {
			p.through(j.worker.(*turn), 0, a)
		}
	case opBreak:
		if p.real.breaking != nil {
			p.through(p.real.breaking.(*turn), a.n, a)
		}
	}
	return true
}

// through delivers an answer at once if the copy does not stop there.
func (p *twins) through(t *turn, n int, a action) {
	if n < len(t.calls) {
		if r := t.calls[n]; r.answered && (a.op == opBreak || r.lists() || r.method != http.MethodGet) {
			p.real.apply(a)
		}
	}
}

// finish takes the steps of a copied search for rings that are not calls.
func (p *twins) finish() {
	for p.copied.breaking != nil {
		b := p.copied.breaking.(*breaking)
		switch {
		case b.next == ringFind:
			p.copied.apply(action{op: opBreak})
		case b.next == ringWrite && b.failed:
			p.copied.apply(action{op: opBreak, n: len(b.writes)}) // the remaining writes are given up at once
		default:
			return
		}
	}
}

// differ describes the differences between the two worlds.
func (p *twins) differ() error {
	c, r := p.copied, p.real
	if c.wrong != nil || r.wrong != nil {
		return fmt.Errorf("the copies: %v; the real code: %v", c.wrong, r.wrong)
	}
	if !slices.Equal(*c.log, *r.log) {
		same := 0
		for same < min(len(*c.log), len(*r.log)) && (*c.log)[same] == (*r.log)[same] {
			same++
		}
		return fmt.Errorf("the calls differ: the copies make\n  %s\nand the real code\n  %s", strings.Join((*c.log)[same:], "\n  "), strings.Join((*r.log)[same:], "\n  "))
	}
	for what, same := range map[string]bool{
		"what waits for an attempt":         maps.Equal(c.queue, r.queue),
		"which attempts failed":             maps.Equal(c.delayed, r.delayed),
		"what waits for an orphaning":       maps.Equal(c.orphans, r.orphans),
		"which orphanings failed":           maps.Equal(c.orphansDelayed, r.orphansDelayed),
		"what is looked at again, and when": maps.Equal(c.timers, r.timers),
		"whether a worker is at work":       (c.workers[0] == nil) == (r.workers[0] == nil),
		"whether rings are looked for":      (c.breaking == nil) == (r.breaking == nil),
	} {
		if !same {
			return fmt.Errorf("%s differs", what)
		}
	}
	for uid, o := range c.server.objects {
		if other := r.server.objects[uid]; other == nil || other.version != o.version {
			return fmt.Errorf("%s differs on the server", uid)
		}
	}
	return nil
}
