package outage

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/reap-dev/reap/tests/bubble"
)

// The log is the process's own, so these tests do not run in parallel.

// keptLog returns what the test logs.
func keptLog(t *testing.T) *logtest.Hook {
	t.Helper()
	h := new(logtest.Hook)
	was := logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	logrus.AddHook(h)
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(was) })
	return h
}

// fields returns what the records with a message have in a field.
func fields(records []*logrus.Entry, message, field string) (values []string) {
	for _, r := range records {
		if r.Message == message {
			value, _ := r.Data[field].(string)
			values = append(values, value)
		}
	}
	return values
}

// watched runs do beside the watch of a datastore, in a bubble. The datastore answers while down is false.
func watched(t *testing.T, do func(o *Outage, down *atomic.Bool)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		var down atomic.Bool
		o := New()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := o.Watch(ctx, 0, func(context.Context) error {
				if down.Load() {
					return errors.New("connection refused")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		do(o, &down)
		cancel()
		<-ended
	})
}

// TestOutageIsLoggedAtGrowingIntervals: a day without the database is one line at once, then lines after one minute, two,
// four and so on, in the end one each hour; and one line when it answers again.
func TestOutageIsLoggedAtGrowingIntervals(t *testing.T) {
	h := keptLog(t)
	watched(t, func(o *Outage, down *atomic.Bool) {
		time.Sleep(time.Hour)
		if records := h.AllEntries(); len(records) > 0 || o.Down() {
			t.Fatalf("while the database answers: %v", records)
		}
		down.Store(true)
		time.Sleep(24 * time.Hour)
		if !o.Down() {
			t.Error("the datastore does not count as down")
		}
		down.Store(false)
		time.Sleep(time.Minute)
		if o.Down() {
			t.Error("the datastore still counts as down")
		}
	})
	told := fields(h.AllEntries(), isDown, "for")
	if len(told) < 6+22 || len(told) > 6+24 || told[0] != "" {
		t.Fatalf("told %d times: %q", len(told), told)
	}
	var last time.Duration
	for i, text := range told[1:] {
		lasting, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		want := min(time.Minute<<min(i, 6), time.Hour)
		if interval := lasting - last; interval < want || interval > want+askEvery+askAgain {
			t.Errorf("told %s after %s, not %s", lasting, last, want)
		}
		last = lasting
	}
	if again := fields(h.AllEntries(), "the datastore answers again", "after"); len(again) != 1 {
		t.Errorf("that it answers again is told %d times", len(again))
	} else if after, err := time.ParseDuration(again[0]); err != nil || after < 24*time.Hour-askEvery-askAgain {
		t.Errorf("it answers again after %s (%v)", again[0], err)
	}
	if n := len(h.AllEntries()); n != len(told)+1 {
		t.Errorf("%d lines, not %d", n, len(told)+1)
	}
}

// TestWarningsWaitForAnAnswer of the datastore that is newer than they are.
func TestWarningsWaitForAnAnswer(t *testing.T) {
	h := keptLog(t)
	watched(t, func(o *Outage, down *atomic.Bool) {
		var shown []bool
		hold := func() {
			t.Helper()
			if !o.Hold(func(down bool) { shown = append(shown, down) }) {
				t.Error("nothing is held back")
			}
			synctest.Wait()
		}
		hold() // the datastore is asked at once
		hold() // and again a second later
		if !slices.Equal(shown, []bool{false}) {
			t.Errorf("shown at once: %v", shown)
		}
		down.Store(true)
		time.Sleep(askAgain)
		synctest.Wait()
		if !slices.Equal(shown, []bool{false, true}) {
			t.Errorf("shown later: %v", shown)
		}
		if n := len(fields(h.AllEntries(), isDown, "")); n != 1 {
			t.Errorf("that it is down is told %d times", n)
		}
		down.Store(false)
		time.Sleep(askAgain + askEvery)
		hold()
		for range maxHeld {
			o.Hold(func(bool) {})
		}
		if o.Hold(func(bool) { t.Error("shown, though it was not held back") }) {
			t.Error("too much is held back")
		}
	})
	if New().Hold(func(bool) {}) {
		t.Error("held back though nobody asks")
	}
}

// TestHeldWarningsAreShownWhenTheWatchEnds, also while the datastore hangs.
func TestHeldWarningsAreShownWhenTheWatchEnds(t *testing.T) {
	keptLog(t)
	bubble.Test(t, func(t *testing.T) {
		o := New()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = o.Watch(ctx, 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}()
		synctest.Wait()
		var shown []bool
		for range 2 { // before the question, and during it
			o.Hold(func(down bool) { shown = append(shown, down) })
			synctest.Wait()
		}
		cancel()
		<-ended
		if !slices.Equal(shown, []bool{false, false}) {
			t.Errorf("shown: %v", shown)
		}
	})
}

// TestDatastoreThatHangsIsDown: no answer is an error too.
func TestDatastoreThatHangsIsDown(t *testing.T) {
	h := keptLog(t)
	bubble.Test(t, func(t *testing.T) {
		o := New()
		ctx, cancel := context.WithTimeout(t.Context(), askEvery+askTimeout+askAgain)
		defer cancel()
		if err := o.Watch(ctx, 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); err != nil {
			t.Error(err)
		}
	})
	records := h.AllEntries()
	if len(records) != 1 || records[0].Message != isDown || records[0].Data[logrus.ErrorKey].(error).Error() != "no answer within 10s" {
		t.Errorf("logged %v", records)
	}
}

// TestOutageThatLastsTooLongIsAnError: the server ends with it. A shorter one is none.
func TestOutageThatLastsTooLongIsAnError(t *testing.T) {
	keptLog(t)
	refused := errors.New("connection refused")
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		err := New().Watch(t.Context(), time.Hour, func(context.Context) error {
			if lasts := time.Since(began); lasts < 50*time.Minute || lasts > time.Hour {
				return refused
			}
			return nil
		})
		if took := time.Since(began); !errors.Is(err, refused) || took < 2*time.Hour || took > 2*time.Hour+time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
