// Package escape makes what others have written fit to be read on a terminal.
package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Text makes a text fit for one line on a terminal: what would move the cursor, end the line, change colours or turn the
// direction is shown as an escape, and bytes that are no character as U+FFFD. The API server takes any text as the kind,
// name and UID of an owner.
func Text(text string) string {
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

// WriteJSON writes v as JSON, with the escapes of JSON.
func WriteJSON(out io.Writer, v any, indent string) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(JSON(raw.Bytes()))
	return err
}

// JSON writes the characters of a JSON text that a terminal would act on or that turn the direction of text as \u escapes, which
// encoding/json does for C0 alone: they can stand only within strings.
func JSON(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, acts) {
		return raw
	}
	var b bytes.Buffer
	for _, r := range string(raw) {
		if acts(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// acts is true of characters that a terminal acts on, and that encoding/json leaves as they are.
func acts(r rune) bool {
	return r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r)
}
