package gc

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// gate is open while the collector may write. It is shut until a read has shown that the
// collector is not paused.
type gate struct {
	now func() time.Time
	log *logrus.Entry

	// mu protects what follows.
	mu      sync.Mutex
	known   bool
	failing bool // the state could not be read or understood when last tried
	state   pause.State
	periods decide.Pauses // on the process's clock; the last has no end while it is paused
	change  chan struct{} // closed at the next change
	// held is true while the guard has paused the collector and nobody has read that from the API server, and
	// wroteIt once it has been written there.
	held, wroteIt bool
	// resumed is called, if it is not nil, when a pause has ended.
	resumed func()
}

func newGate(now func() time.Time, log *logrus.Entry) *gate {
	return &gate{now: now, log: log, change: make(chan struct{})}
}

// follow keeps the gate in step with the API server until ctx ends. The gate stays shut until verified is closed; nil for no wait.
func (g *gate) follow(ctx context.Context, client typedcorev1.ConfigMapsGetter, verified <-chan struct{}) {
	if verified != nil {
		began := g.now()
		select {
		case <-verified:
		case <-ctx.Done():
			return
		}
		g.waited(began)
	}
	pause.Watch(ctx, client, g.set, g.failed)
}

// waited takes the time since began for a pause.
func (g *gate) waited(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.periods = append(slices.Clone(g.periods), decide.Pause{From: began, To: g.now()})
}

// set takes the state that the API server has returned.
func (g *gate) set(s pause.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held && !s.Paused && !g.wroteIt {
		return // it is from before
	}
	g.held = false
	now := g.now()
	first, was := !g.known, g.state.Paused
	var ended time.Duration
	// Whoever has got the pauses keeps them as they were.
	periods := slices.Clone(g.periods)
	switch {
	case first:
		for _, i := range s.Past {
			periods = append(periods, decide.Pause{From: elapsedSince(i.From, now), To: elapsedSince(i.To, now)})
		}
		since := now // of the time in which nobody knew
		if !s.Since.IsZero() {
			since = elapsedSince(s.Since, now)
		}
		if s.Paused {
			periods = append(periods, decide.Pause{From: since})
		}
	case s.Paused && !was:
		periods = append(periods, decide.Pause{From: now})
	case was && !s.Paused:
		last := &periods[len(periods)-1]
		last.To = now
		ended = now.Sub(last.From)
	}
	g.periods = periods
	g.known, g.failing, g.state = true, false, s
	close(g.change)
	g.change = make(chan struct{})
	log := g.log.WithFields(logrus.Fields{"by": g.state.By, "reason": g.state.Reason})
	switch {
	case s.Paused && (first || !was):
		log.Warn("collector is paused: it writes nothing until somebody runs reap resume")
	case was && !s.Paused:
		g.log.WithField("paused", ended.Round(time.Second).String()).Info("collector goes on after a pause")
		if g.resumed != nil {
			g.resumed()
		}
	}
}

// hold shuts the gate before the API server knows of the pause; false if it is shut already.
func (g *gate) hold(s pause.State) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known || g.state.Paused {
		return false
	}
	g.periods = append(slices.Clone(g.periods), decide.Pause{From: g.now()})
	g.state, g.held, g.wroteIt = s, true, false
	return true
}

// written is told that the API server knows of the pause that hold began, or of another one that was there already. From
// now on its word counts.
func (g *gate) written(s pause.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held {
		g.state, g.wroteIt = s, true
	}
}

// failed notes that the state could not be read or parsed.
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

// pauses returns the times in which the collector was paused.
func (g *gate) pauses() decide.Pauses {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.periods
}

// elapsedSince returns a time of the wall clock on the clock that now was read from,
// which no jump moves. A time in the future is now.
func elapsedSince(t, now time.Time) time.Time {
	return now.Add(-max(0, now.Sub(t)))
}
