package pause

import (
	"reflect"
	"testing"
	"time"
)

// FuzzState reads arbitrary contents of the ConfigMap. Only a clear "no" means that there is no pause. A state that is
// written comes back unchanged: the same pauses, and the same ones after them.
func FuzzState(f *testing.F) {
	f.Add("true", "2026-01-01T00:00:00Z", "me", "a reason\nof two lines", "true", "2025-01-01T00:00:00Z/2025-01-02T00:00:00Z\n")
	f.Add("false", "", "", "", "", "2025-01-02T00:00:00Z/2025-01-01T00:00:00Z\nx/y\n/\n\n")
	f.Add("yes", "0000-00-00T00:00:00Z", "\x00", "", "TRUE", "9999-12-31T23:59:59-23:59/9999-12-31T23:59:59Z")
	f.Add("", "2026-01-01T00:00:00.999999999+23:59", "", "", "false", "0001-01-01T00:00:00Z/9999-12-31T23:59:59Z")
	f.Fuzz(func(t *testing.T, paused, since, by, reason, held, past string) {
		s, err := stateOf(map[string]string{keyPaused: paused, keySince: since, keyBy: by, keyReason: reason, keyHeld: held, keyPast: past})
		if s.Paused != (paused != "false" && paused != "") {
			t.Errorf("%q: paused %v", paused, s.Paused)
		}
		if (err != nil) != (s.Paused && paused != "true") {
			t.Errorf("%q: %v", paused, err)
		}
		for _, i := range s.Past {
			if !i.To.After(i.From) {
				t.Errorf("a pause from %s to %s", i.From, i.To)
			}
		}
		// Times are written as whole seconds in UTC: after the first write nothing changes any more.
		once, err := stateOf(s.data())
		if err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
		twice, err := stateOf(once.data())
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%+v came back as %+v (%v)", once, twice, err)
		}
		if once.Paused != s.Paused || once.Held != s.Held || once.By != s.By || once.Reason != s.Reason || len(once.Past) > len(s.Past) {
			t.Errorf("%+v was written, and %+v read", s, once)
		}
		ended := s.end(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
		if ended.Paused || len(ended.Past) > max(len(s.Past), pastKept) {
			t.Errorf("after its end: %+v", ended)
		}
	})
}
