package outage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/bubble"
)

// awaited runs Await on a datastore that answers after a time, and returns the error, how long it took and how often it has waited.
func awaited(t *testing.T, limit, after time.Duration, says error, final func(error) bool) (took time.Duration, waits int, err error) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		err = Await(t.Context(), limit, func(context.Context) error {
			if time.Since(began) < after {
				return says
			}
			return nil
		}, final, func() { waits++ })
		took = time.Since(began)
	})
	return took, waits, err
}

func never(error) bool { return false }

// TestStartWaitsForItsDatastore for as long as it takes, and says so at growing intervals, not at each attempt.
func TestStartWaitsForItsDatastore(t *testing.T) {
	h := keptLog(t)
	took, waits, err := awaited(t, 0, time.Hour, errors.New("connection refused"), never)
	if err != nil || took < time.Hour || took > time.Hour+awaitMost {
		t.Errorf("after %s: %v", took, err)
	}
	if waits < 700 { // the service manager is asked for more time at each
		t.Errorf("it has waited %d times", waits)
	}
	// At once, then after one minute, two, four, eight, sixteen.
	if told := fields(h.AllEntries(), isAwaited, "for"); len(told) != 6 || told[0] != "" {
		t.Errorf("the log tells of it %d times: %q", len(told), told)
	}
	if n := len(fields(h.AllEntries(), answersAgain, "after")); n != 1 || len(h.AllEntries()) != 7 {
		t.Errorf("that it answers is told %d times, in %d lines", n, len(h.AllEntries()))
	}
}

// TestStartThatFindsItsDatastoreSaysNothing: an ordinary start.
func TestStartThatFindsItsDatastoreSaysNothing(t *testing.T) {
	h := keptLog(t)
	if took, waits, err := awaited(t, time.Second, 0, nil, never); err != nil || took != 0 || waits != 0 || len(h.AllEntries()) != 0 {
		t.Errorf("%v after %s, %d waits, the log %v", err, took, waits, h.AllEntries())
	}
}

func TestStartWaitsNoLongerThanItMay(t *testing.T) {
	keptLog(t)
	refused := errors.New("connection refused")
	if took, _, err := awaited(t, 5*time.Minute, time.Hour, refused, never); !errors.Is(err, refused) || took < 5*time.Minute || took > 5*time.Minute+awaitMost {
		t.Errorf("after %s: %v", took, err)
	}
}

// TestStartDoesNotWaitForAnotherPassword.
func TestStartDoesNotWaitForAnotherPassword(t *testing.T) {
	h := keptLog(t)
	wrong := errors.New("password authentication failed")
	if took, _, err := awaited(t, 0, time.Hour, wrong, func(err error) bool { return errors.Is(err, wrong) }); !errors.Is(err, wrong) || took != 0 || len(h.AllEntries()) != 0 {
		t.Errorf("%v after %s, the log %v", err, took, h.AllEntries())
	}
}

func TestCancelledStartStopsWaiting(t *testing.T) {
	keptLog(t)
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("stopped"))
		defer cancel()
		err := Await(ctx, 0, func(context.Context) error { return errors.New("connection refused") }, never, func() {})
		if err == nil || err.Error() != "stopped" {
			t.Errorf("got %v", err)
		}
	})
}
