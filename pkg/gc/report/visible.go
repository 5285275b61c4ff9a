package report

import (
	"strconv"
	"strings"
	"unicode"
)

// visible makes a text that others have written fit for one line on a terminal: what would move the cursor, end the line, change
// colours or turn the direction is shown as an escape. The API server takes any text as the kind, name and UID of an owner.
func visible(text string) string {
	if strings.ContainsFunc(text, unprintable) {
		var b strings.Builder
		for _, r := range text {
			if unprintable(r) {
				b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			} else {
				b.WriteRune(r)
			}
		}
		return b.String()
	}
	return text
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// oneLine joins the lines of a text, which a server may have written, and makes the rest visible.
func oneLine(text string) string { return visible(strings.Join(strings.Fields(text), " ")) }
