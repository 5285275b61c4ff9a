package observe

import "testing"

func TestRevisionKnowsWhenTheStoreWentBack(t *testing.T) {
	var r revision
	for _, step := range []struct {
		list string
		back bool
	}{
		{"5", false}, {"5", false}, {"10", false}, {"9", true}, {"10", false},
		{"not a number", false}, {"", false}, {"0", true}, {"18446744073709551615", false}, {"11", true},
	} {
		if got := r.wentBack(step.list); got != step.back {
			t.Errorf("%q after %d: %v", step.list, r.highest.Load(), got)
		}
		r.note(step.list)
	}
}

func TestRevisionIsTheHighest(t *testing.T) {
	var r revision
	for _, version := range []string{"5", "7", "6", "x", ""} {
		r.note(version)
	}
	if got := r.highest.Load(); got != 7 {
		t.Errorf("the highest revision is %d, want 7", got)
	}
}
