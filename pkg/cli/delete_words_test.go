package cli

import (
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// TestDeleteSaysThatNothingFollows: neither the question nor the end of a wait promises a cascade that no collector makes.
func TestDeleteSaysThatNothingFollows(t *testing.T) {
	for name, c := range map[string]struct {
		d    deletion
		p    report.Plan
		want string
	}{
		"paused":       {deletion{paused: true, byReap: true}, report.Plan{Pause: &pause.State{Paused: true}}, "until 'reap resume'"},
		"no collector": {deletion{absent: true}, report.Plan{Basis: report.Basis{NoCollector: true}}, "no collector runs"},
	} {
		if text := c.d.goesOn(nil); !strings.Contains(text, c.want) || strings.Contains(text, "goes on in the cluster") {
			t.Errorf("%s: %s", name, text)
		}
		if text := question(c.p); !strings.Contains(text, "nothing follows") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
