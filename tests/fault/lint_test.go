package fault

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// TestLintReadsOwnersDuringAPause: during a pause, lint reads what the collector would read if it ran. A user
// restores a backup while the collector is paused and wants to know what it will do.
func TestLintReadsOwnersDuringAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Pause(true)
		w.Start(nil)
		w.Rest()
		l := w.Collector().Lint(t.Context(), report.LintOptions{})
		if l.Count != 2*children || l.ByCode[lint.Dangling] != 2*children || l.ByEffect["collected"] != 2*children || len(l.Basis.Incomplete) > 0 {
			t.Errorf("%+v", l)
		}
		w.wantWhole("living")
		if n := w.count("ghost"); n != 2*children {
			t.Errorf("%d children of an owner that never was are left: the collector is paused", n)
		}
	})
}
