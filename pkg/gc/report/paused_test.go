package report

import (
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// TestPausedIsSaid, and reap resume is offered only for a deletion that the collector would go on with: for any other object it
// frees nothing, and may be its end.
func TestPausedIsSaid(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		action  string
		deleted bool
		resume  bool
		next    string
	}{
		{"nothing", false, false, "nothing, until something changes"},
		{"delete", false, false, "nothing while the collector is paused; delete once the pause ends"},
		{"nothing", true, false, "nothing, until something changes"},
		{"release", true, true, "nothing while the collector is paused; release once the pause ends"},
	} {
		y := Why{Object: Object{Resource: "configmaps", Name: "a"}, Action: tc.action, Now: now, Pause: &pause.State{Paused: true, Since: now.Add(-time.Hour), Reason: "a look"}}
		if tc.deleted {
			y.DeletedAt = now
		}
		y.Advise("", "")
		var b strings.Builder
		if err := y.Print(&b); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.Contains(got, "reap resume") != tc.resume || !strings.Contains(got, tc.next+"\n") || !strings.Contains(got, "written for 60m: a look") {
			t.Errorf("%+v:\n%s", tc, got)
		}
	}
	var b strings.Builder
	l := Lint{Basis: Basis{Pause: &pause.State{Paused: true}}, Count: 1, ByEffect: map[string]int{"collected": 1}, ByCode: map[lint.Code]int{lint.Dangling: 1}}
	if err := l.Print(&b); err != nil || !strings.Contains(b.String(), "the collector is paused") || !strings.Contains(b.String(), "WILL BE COLLECTED ONCE THE PAUSE ENDS (1)") {
		t.Errorf("%v\n%s", err, &b)
	}
}
