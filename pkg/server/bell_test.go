package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/jump"
)

// TestBellRingsWhenTheClockIsSet, forward or back, and not while it is only corrected.
func TestBellRingsWhenTheClockIsSet(t *testing.T) {
	const year = 365 * 24 * time.Hour
	began := time.Now()
	for name, c := range map[string]struct {
		then  time.Time
		rings int
	}{
		"goes on":                {began.Add(clockEvery), 0},
		"goes on after an hour":  {began.Add(time.Hour), 0},
		"is corrected":           {jump.By(began.Add(clockEvery), 30*time.Second), 0},
		"is set forward":         {jump.By(began.Add(clockEvery), 2*year), 1},
		"is set back":            {jump.By(began.Add(clockEvery), -2*year), 1},
		"is set back by so much": {jump.By(began, -clockJumps), 1},
	} {
		t.Run(name, func(t *testing.T) {
			moments := []time.Time{began, c.then}
			rung, tick := make(bell, 1), make(chan time.Time)
			ctx, cancel := context.WithCancel(t.Context())
			var watching sync.WaitGroup
			watching.Go(func() {
				rung.watchClock(ctx, func() (now time.Time) {
					now, moments = moments[0], moments[1:]
					return now
				}, tick)
			})
			tick <- time.Time{}
			cancel()
			watching.Wait()
			if len(rung) != c.rings {
				t.Errorf("it rang %d times", len(rung))
			}
		})
	}
}
