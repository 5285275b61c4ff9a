package cli

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/reap-dev/reap/pkg/escape"
)

// visibleWriter stands between what a command prints for people and the stream. It shows as escapes what a terminal would act on,
// wherever it comes from: the bytes of an object, a file's name, a server's error. Ends of lines, tabs, and colours if there are any, pass. A
// printer escapes the ends of lines within a field itself.
type visibleWriter struct {
	out     io.Writer
	colours bool
	rest    []byte // of a character that the last Write broke off in
}

func (w *visibleWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	var shown bytes.Buffer
	for len(text) > 0 && utf8.FullRune(text) {
		if text[0] == '\x1b' && w.colours {
			if at := colour.FindIndex(text); at != nil && at[0] == 0 {
				shown.Write(text[:at[1]])
				text = text[at[1]:]
				continue
			}
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || r == '\t':
			shown.WriteRune(r)
		case r == utf8.RuneError && size == 1:
			shown.WriteString(escape.Text(string(utf8.RuneError)))
		default:
			shown.WriteString(escape.Text(string(r)))
		}
		text = text[size:]
	}
	w.rest = append([]byte(nil), text...)
	if _, err := w.out.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes what is left of a character that has no end.
func (w *visibleWriter) end() error {
	if len(w.rest) == 0 {
		return nil
	}
	w.rest = nil
	_, err := io.WriteString(w.out, escape.Text(string(utf8.RuneError)))
	return err
}

// say writes a sentence for people. That it cannot be written changes nothing.
func say(out io.Writer, format string, args ...any) {
	_ = visibly(out, false, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, format, args...)
		return err
	})
}

// visibly calls print with a visibleWriter.
func visibly(out io.Writer, colours bool, print func(io.Writer) error) error {
	w := &visibleWriter{out: out, colours: colours}
	if err := print(w); err != nil {
		return err
	}
	return w.end()
}
