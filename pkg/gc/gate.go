package gc

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// gate is open while the collector may write. It is shut until somebody has read
// that the collector is not paused.
type gate struct {
	now func() time.Time
	log *logrus.Entry

	// mu protects what follows.
	mu      sync.Mutex
	known   bool
	failing bool // the state could not be read or understood when last tried
	state   pause.State
	since   time.Time        // on the process's clock; when the pause began
	past    []pause.Interval // pauses that have ended, on the process's clock
	change  chan struct{}    // closed at the next change
}

func newGate(now func() time.Time, log *logrus.Entry) *gate {
	return &gate{now: now, log: log, change: make(chan struct{})}
}

// follow keeps the gate in step with the API server until ctx ends.
func (g *gate) follow(ctx context.Context, client typedcorev1.ConfigMapsGetter) {
	pause.Watch(ctx, client, g.set, g.failed)
}

// set is told what the API server says.
func (g *gate) set(s pause.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	first, was := !g.known, g.state.Paused
	switch {
	case first:
		for _, i := range s.Past {
			g.past = append(g.past, pause.Interval{From: elapsedSince(i.From.Unix(), now), To: elapsedSince(i.To.Unix(), now)})
		}
		g.since = now
		if !s.Since.IsZero() {
			g.since = elapsedSince(s.Since.Unix(), now)
		}
	case s.Paused && !was:
		g.since = now
	case was && !s.Paused:
		g.past = append(g.past, pause.Interval{From: g.since, To: now})
	}
	g.known, g.failing, g.state = true, false, s
	close(g.change)
	g.change = make(chan struct{})
	log := g.log.WithFields(logrus.Fields{"by": g.state.By, "reason": g.state.Reason})
	switch {
	case s.Paused && (first || !was):
		log.Warn("collector is paused: it writes nothing until somebody runs reap resume")
	case was && !s.Paused:
		g.log.WithField("paused", now.Sub(g.since).Round(time.Second).String()).Info("collector goes on after a pause")
	}
}

// failed is told that the state could not be read or understood.
func (g *gate) failed(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing {
		return
	}
	g.failing = true
	if g.known {
		g.log.WithError(err).Warn("cannot read whether the collector is paused; going on with what was known")
	} else {
		g.log.WithError(err).Warn("cannot read whether the collector is paused; it writes nothing until that is known")
	}
}

// allow returns nil if a write may be made now, else act.ErrPaused.
func (g *gate) allow() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known || g.state.Paused {
		return act.ErrPaused
	}
	return nil
}

// wait returns when the gate is open; false if ctx ended first.
func (g *gate) wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		open, change := g.known && !g.state.Paused, g.change
		g.mu.Unlock()
		if open {
			return ctx.Err() == nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return false
		}
	}
}

// paused returns the state; known is false as long as it has not been read.
func (g *gate) paused() (s pause.State, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.known
}

// pausedSince returns how much of the time from then to now was paused.
func (g *gate) pausedSince(then, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var total time.Duration
	overlap := func(from, to time.Time) {
		if from.Before(then) {
			from = then
		}
		if to.After(now) {
			to = now
		}
		total += max(0, to.Sub(from))
	}
	for _, i := range g.past {
		overlap(i.From, i.To)
	}
	if g.state.Paused {
		overlap(g.since, now)
	}
	return total
}
