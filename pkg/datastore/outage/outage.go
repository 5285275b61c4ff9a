// Package outage keeps the log readable while a datastore elsewhere is down.
//
//	log ──warnings──▶ Outage ──asks──▶ datastore
//	 ▲                  │
//	 └── or at debug ◀──┘
//
// When a database stops answering, everything that uses it fails and warns, at once and each second from then on. An
// Outage asks the database whether it answers. It logs that it does not, again at growing intervals, and that it answers
// again. The log holds each warning back until the next answer, and shows it only if the database answers.
package outage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// askEvery is how often the datastore is asked whether it answers, if nothing is held back.
	askEvery = 5 * time.Second
	// askAgain is the shortest time between two questions. It is also about how long a warning is held back.
	askAgain = time.Second
	// askTimeout is how long an answer may take.
	askTimeout = 10 * time.Second
	// maxHeld bounds how many warnings are held back. Further ones are shown at once.
	maxHeld = 1000
)

// Outage says whether a datastore is down. Its methods may be called concurrently. The zero value is nobody's: nothing is
// held back until Watch runs.
type Outage struct {
	// mu protects everything below.
	mu      sync.Mutex
	watched bool
	down    bool
	held    []func(down bool)
	wake    chan struct{} // has room for one token: something is held back
}

// New returns an Outage that nobody watches yet.
func New() *Outage { return &Outage{wake: make(chan struct{}, 1)} }

// Down reports whether the datastore is known to be down.
func (o *Outage) Down() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

// Hold keeps a warning back: it calls show once the datastore has been asked whether it answers. held is false if
// nobody asks, or if too much is held back already; then show is never called.
func (o *Outage) Hold(show func(down bool)) (held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.watched || len(o.held) >= maxHeld {
		return false
	}
	o.held = append(o.held, show)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

const (
	isDown       = "the datastore does not answer; requests to the API fail until it does"
	answersAgain = "the datastore answers again"
)

// Watch asks the datastore, by ask, from time to time and whenever something is held back, until ctx is cancelled. If the datastore has not
// answered for longer than limit, Watch returns that; a limit of 0 is none.
func (o *Outage) Watch(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	o.set(true, false)
	defer func() {
		o.set(false, false)
		show(o.take(), false)
	}()
	var reminders *Reminders // nil while the datastore answers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		case <-o.wake:
		}
		held := o.take() // what comes later may have happened after the answer
		err := askOnce(ctx, ask)
		if ctx.Err() != nil {
			show(held, false)
			return nil
		}
		o.set(true, err != nil)
		switch {
		case err == nil && reminders != nil:
			logrus.WithField("after", reminders.Lasting().Round(time.Millisecond).String()).Info(answersAgain)
			reminders = nil
		case err != nil && reminders == nil:
			reminders = NewReminders()
			logrus.WithError(err).Error(isDown)
		case err != nil && reminders.Due():
			logrus.WithError(err).WithField("for", reminders.Lasting().Round(time.Second).String()).Error(isDown)
		}
		show(held, err != nil)
		if err != nil && limit > 0 && reminders.Lasting() >= limit {
			return tooLong(limit, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askAgain):
		}
	}
}

func askOnce(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %s", askTimeout))
	defer cancel()
	err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (o *Outage) set(watched, down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watched, o.down = watched, down
}

func (o *Outage) take() []func(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held
	o.held = nil
	return held
}

func show(held []func(down bool), down bool) {
	for _, f := range held {
		f(down)
	}
}
