package outage

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// awaitFirst and awaitMost bound the pause between two questions of a start: it doubles.
const (
	awaitFirst = 250 * time.Millisecond
	awaitMost  = 5 * time.Second
)

const isAwaited = "the datastore does not answer; the server starts as soon as it does"

// Await asks a datastore, by ask, until it answers, and logs as Watch does that it does not. It returns an error that final reports to be
// one that waiting does not change, or that the datastore has not answered for longer than limit; a limit of 0 is none. waiting is called
// before each pause.
func Await(ctx context.Context, limit time.Duration, ask func(context.Context) error, final func(error) bool, waiting func()) error {
	var reminders *Reminders // nil before the first failure
	for pause := awaitFirst; ; pause = min(2*pause, awaitMost) {
		err := askOnce(ctx, ask)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && reminders != nil:
			logrus.WithField("after", reminders.Lasting().Round(time.Millisecond).String()).Info(answersAgain)
			return nil
		case err == nil || final(err):
			return err
		case reminders == nil:
			reminders = NewReminders()
			logrus.WithError(err).Error(isAwaited)
		case reminders.Due():
			logrus.WithError(err).WithField("for", reminders.Lasting().Round(time.Second).String()).Error(isAwaited)
		}
		if limit > 0 && reminders.Lasting() >= limit {
			return tooLong(limit, err)
		}
		waiting()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// tooLong is the error of an outage that has lasted longer than it may.
func tooLong(limit time.Duration, last error) error {
	return fmt.Errorf("it has not answered for %s (--datastore-timeout): %w", limit, last)
}
