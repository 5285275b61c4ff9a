package server

import (
	"runtime/debug"
	"testing"
	"time"
)

// Each step is an interval: the bytes allocated, the bytes that a garbage collection could free, and whether it should run.
func TestMemoryIsGivenBackWhenABurstIsOver(t *testing.T) {
	type step struct {
		allocated, unused uint64
		out               bool
	}
	const some, much = quiet / 2, 100 * quiet
	for name, steps := range map[string][]step{
		"idle":                     {{some, 0, false}, {some, worthFreeing + 1, true}, {some, 0, false}},
		"end of a burst":           {{some, 0, false}, {much, 0, false}, {much, 2 * worthFreeing, false}, {some, 2 * worthFreeing, true}, {some, 0, false}},
		"found in use until then":  {{much, 0, false}, {some, 0, true}, {some, 0, false}},
		"less, and then even less": {{much, 0, false}, {much/ebb - 1, 0, true}, {much/ebb - 1, 2 * worthFreeing, false}, {some, 0, true}, {some, 0, false}},
		"steady":                   {{much, 2 * worthFreeing, false}, {much, 2 * worthFreeing, false}},
	} {
		now := time.Unix(0, 0)
		follow := tide{freed: now}
		var m memory
		for i, s := range steps {
			now = now.Add(lookEvery)
			m = memory{allocated: m.allocated + s.allocated, unused: s.unused}
			if got := follow.out(m, now); got != s.out {
				t.Errorf("%s: step %d: %v", name, i, got)
			}
		}
	}
}

func TestBusyServerGivesMemoryBackNowAndThen(t *testing.T) {
	now := time.Unix(0, 0)
	follow := tide{freed: now}
	var m memory
	given := 0
	for range 3*int(latest/lookEvery) + 3 {
		now = now.Add(lookEvery)
		m = memory{allocated: m.allocated + 100*quiet, unused: 2 * worthFreeing}
		if follow.out(m, now) {
			given++
		}
	}
	if given != 3 {
		t.Errorf("given back %d times in three times %s", given, latest)
	}
}

// TestGarbageIsCollectedMoreOftenDuringAStart, and as before afterwards; a user's GOGC stays.
func TestGarbageIsCollectedMoreOftenDuringAStart(t *testing.T) {
	const usual = 123
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	percent := func() int {
		p := debug.SetGCPercent(usual)
		debug.SetGCPercent(p)
		return p
	}
	for gogc, want := range map[string]int{"": startPercent, "80": usual} {
		t.Setenv("GOGC", gogc)
		started := startSmall()
		if p := percent(); p != want {
			t.Errorf("GOGC=%s: %d during the start", gogc, p)
		}
		started()
		if p := percent(); p != usual {
			t.Errorf("GOGC=%s: %d after the start", gogc, p)
		}
	}
}
