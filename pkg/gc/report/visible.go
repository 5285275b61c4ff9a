package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// visible makes a text that others have written fit for one line on a terminal: what would move the cursor, end the line, change
// colours or turn the direction is shown as an escape, and bytes that are no character as U+FFFD. The API server takes any text as the kind, name and UID of an owner.
func visible(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
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

// Visible is visible for texts that are printed outside of reports, such as errors.
func Visible(text string) string { return visible(text) }

// WriteJSON writes v as JSON. Characters that a terminal would act on or that turn the direction of text are written as \u escapes,
// which encoding/json does for C0 alone: they can stand only within strings.
func WriteJSON(out io.Writer, v any, indent string) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var b bytes.Buffer
	for _, r := range raw.String() {
		if r <= unicode.MaxLatin1 && r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}
