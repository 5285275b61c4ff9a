package gc

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/goldenfile"
)

// TestReferenceOfEvents compares docs/events.md with the events that the collector writes.
func TestReferenceOfEvents(t *testing.T) {
	var b strings.Builder
	b.WriteString("| reason | type | when | what to do |\n|---|---|---|---|\n")
	for _, e := range allEvents {
		if e.reason == "" || e.when == "" || e.do == "" {
			t.Errorf("the event %+v is not documented", e)
		}
		fmt.Fprintf(&b, "| `%s` | Warning | %s | %s |\n", e.reason, e.when, e.do)
	}
	goldenfile.Section(t, filepath.Join("..", "..", "docs", "events.md"), "The list of events", b.String())
}
