package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/bubble"
)

func TestCollectorBeginsAgainEverLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := time.Now()
		var delays []time.Duration
		err := restarted(ctx, quiet(), func(context.Context) error {
			delays = append(delays, time.Since(ended))
			if _, absent := Running.Collector(); len(delays) == 2 && !strings.Contains(absent.Reason, "begin again") {
				t.Errorf("between two collectors, %q", absent.Reason)
			}
			switch n := len(delays); {
			case n < 10:
				time.Sleep(runsWell / 2) // altogether more than runsWell
			case n == 10:
				time.Sleep(runsWell)
			case n == 12:
				cancel() // during the delay before the next one
			}
			ended = time.Now()
			return fmt.Errorf("observing: %w", ErrStoreWentBack)
		})
		if err != nil {
			t.Errorf("asked to end, it ended with %v", err)
		}
		s := time.Second
		if want := []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s, s, 2 * s}; !slices.Equal(delays, want) {
			t.Errorf("delays of %v, want %v", delays, want)
		}
		if took := time.Since(ended); took != 0 {
			t.Errorf("it ended after %v", took)
		}
	})
}

// Writes under way when the store goes back were decided on a state that no longer holds.
func TestCallsAreAbandonedAtOnceWhenTheStoreWentBack(t *testing.T) {
	for cause, want := range map[error]time.Duration{
		context.Canceled: stopGrace, errors.New("no"): stopGrace, fmt.Errorf("observing: %w", ErrStoreWentBack): 0,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if got := grace(ctx); got != want {
			t.Errorf("%v: calls may take %s, want %s", cause, got, want)
		}
	}
}

// A collector that was asked to end has not failed; one that gave up returns the reason.
func TestCollectorReturnsWhyItEnded(t *testing.T) {
	failure := fmt.Errorf("observing: %w", ErrStoreWentBack)
	for cause, want := range map[error]error{nil: nil, context.Canceled: nil, failure: failure} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if got := runError(ctx); !errors.Is(got, want) {
			t.Errorf("%v: it ended with %v", cause, got)
		}
	}
}

func TestWorkersAreAsManyAsAskedFor(t *testing.T) {
	for _, want := range []int{1, 2, 50} {
		if got := workers(want); got != want {
			t.Errorf("%d workers, want %d", got, want)
		}
	}
	if got := workers(0); got < 4 || got > 20 {
		t.Errorf("%d workers by default", got)
	}
}

func TestOnlyAStoreThatWentBackStartsAnotherCollector(t *testing.T) {
	failure := errors.New("no")
	for _, want := range []error{nil, failure} {
		runs := 0
		err := restarted(t.Context(), quiet(), func(context.Context) error {
			if runs++; runs > 1 {
				return nil
			}
			return want
		})
		if !errors.Is(err, want) || runs != 1 {
			t.Errorf("%d collectors, of which the last ended with %v, want %v", runs, err, want)
		}
	}
}
