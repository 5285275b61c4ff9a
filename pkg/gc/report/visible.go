package report

import (
	"strings"

	"github.com/reap-dev/reap/pkg/escape"
)

// visible makes a text that others have written fit for one line on a terminal.
func visible(text string) string { return escape.Text(text) }

// oneLine joins the lines of a text, which a server may have written, and makes the rest visible.
func oneLine(text string) string { return visible(strings.Join(strings.Fields(text), " ")) }
