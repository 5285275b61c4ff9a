package pause

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func at(minutes int) time.Time {
	return time.Unix(1_000_000, 0).UTC().Add(time.Duration(minutes) * time.Minute)
}

func TestStateSurvivesItsConfigMap(t *testing.T) {
	s := State{}.begin("me@here", "a reason\nof two lines", at(0))
	back, err := stateOf(s.data())
	if err != nil || !back.Paused || !back.Since.Equal(at(0)) || back.By != s.By || back.Reason != s.Reason || len(back.Past) != 0 {
		t.Errorf("%+v, %v", back, err)
	}
	s = back.end(at(10)).begin("you", "", at(20)).end(at(30))
	back, err = stateOf(s.data())
	want := []Interval{{at(0), at(10).Add(time.Second)}, {at(20), at(30).Add(time.Second)}}
	if err != nil || back.Paused || back.By != "" || !slices.EqualFunc(back.Past, want, func(a, b Interval) bool { return a.From.Equal(b.From) && a.To.Equal(b.To) }) {
		t.Errorf("%+v, %v", back, err)
	}
}

// The ConfigMap keeps a hold as it is, and the hold ends with the pause.
func TestHoldSurvivesItsConfigMap(t *testing.T) {
	w := &wire{}
	client := w.client(t)
	if _, _, err := Begin(t.Context(), client, "me", "before", at(0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} { // the second changes nothing
		s, changed, err := Hold(t.Context(), client, "server", "restored", at(10))
		if err != nil || changed != want || !s.Paused || !s.Held || s.By != "server" || s.Reason != "restored" || !s.Since.Equal(at(0)) {
			t.Errorf("%+v, changed: %v, %v", s, changed, err)
		}
	}
	if s, changed, err := Begin(t.Context(), client, "me", "again", at(11)); err != nil || changed || !s.Held {
		t.Errorf("a pause on top: %+v, changed: %v, %v", s, changed, err)
	}
	if s, changed, err := End(t.Context(), client, at(12)); err != nil || !changed || !s.Held {
		t.Errorf("its end: %+v, changed: %v, %v", s, changed, err)
	}
	if s, _ := stateOf(w.data); s.Paused || s.Held {
		t.Errorf("the state that was written is %+v, want neither paused nor held", s)
	}
	if s, changed, err := Begin(t.Context(), client, "me", "later", at(13)); err != nil || !changed || s.Held {
		t.Errorf("a later pause: %+v, changed: %v, %v", s, changed, err)
	}
}

// In doubt nothing is written.
func TestUnreadableStateCountsAsPaused(t *testing.T) {
	for value, paused := range map[string]bool{"true": true, "false": false, "": false, "yes": true, "True": true, "0": true} {
		s, err := stateOf(map[string]string{keyPaused: value})
		if s.Paused != paused {
			t.Errorf("%q: paused %v", value, s.Paused)
		}
		if (err != nil) != (paused && value != "true") {
			t.Errorf("%q: %v", value, err)
		}
	}
	s, err := stateOf(map[string]string{keyPaused: "true", keySince: "yesterday", keyPast: "never\nnever/2020-01-01T00:00:00Z\n2020-01-01T00:00:00Z/never\n2020-01-01T00:00:00Z\n\n2020-01-02T00:00:00Z/2020-01-01T00:00:00Z\n"})
	if err != nil || !s.Paused || !s.Since.IsZero() || len(s.Past) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Many pauses take no more room than a few, and no paused time is lost.
func TestOldPausesAreMerged(t *testing.T) {
	s := State{}
	for i := range 3 * pastKept {
		s = s.begin("", "", at(2*i)).end(at(2*i + 1))
	}
	if len(s.Past) != pastKept {
		t.Errorf("%d pauses are remembered", len(s.Past))
	}
	if first := s.Past[0]; !first.From.Equal(at(0)) || first.To.Before(at(4*pastKept)) {
		t.Errorf("the oldest is %v", first)
	}
	if !slices.IsSortedFunc(s.Past, func(a, b Interval) int { return a.From.Compare(b.From) }) {
		t.Errorf("past pauses are not sorted: %v", s.Past)
	}
}

func TestNoPauseLeavesNoTrace(t *testing.T) {
	if d := (State{}).data(); !maps.Equal(d, map[string]string{keyPaused: "false"}) {
		t.Errorf("%v", d)
	}
}

// A pause that lasts takes another reason, and stays as long and as firm as it was.
func TestExplainChangesOnlyTheReason(t *testing.T) {
	w := &wire{}
	client := w.client(t)
	if s, changed, err := Explain(t.Context(), client, "you", "why"); err != nil || changed || s.Paused {
		t.Errorf("without a pause: %+v, changed %v, %v", s, changed, err)
	}
	if _, _, err := Hold(t.Context(), client, "server", "restored", at(0)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} { // the second changes nothing
		s, changed, err := Explain(t.Context(), client, "you", "why")
		found, findErr := Find(t.Context(), client)
		for _, s := range []State{s, found} {
			if err != nil || findErr != nil || changed != want || !s.Paused || !s.Held || s.By != "you" || s.Reason != "why" || !s.Since.Equal(at(0)) {
				t.Errorf("%+v, changed %v, %v, %v", s, changed, err, findErr)
			}
		}
	}
}
