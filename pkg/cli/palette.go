package cli

import (
	"io"

	"github.com/fatih/color"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// palette returns the colours for a stream: none unless it is a terminal that shows them and
// $NO_COLOR is not set.
func palette(out io.Writer) report.Palette {
	if terminal(out) == nil || color.NoColor {
		return report.Plain
	}
	paint := func(attributes ...color.Attribute) func(string) string {
		c := color.New(attributes...)
		return func(s string) string { return c.Sprint(s) }
	}
	return report.Palette{Bad: paint(color.FgRed), Strong: paint(color.Bold), Faint: paint(color.Faint)}
}
