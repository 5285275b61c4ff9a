package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"golang.org/x/term"
)

// folded writes what a report prints to a stream, with lines that are too long for a terminal folded between words, below
// the column that they begin in. What is no terminal gets each line as it is.
func folded(out io.Writer, print func(io.Writer) error) error {
	f := terminal(out)
	if f == nil {
		return print(out)
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 40 {
		return print(out)
	}
	var text bytes.Buffer
	if err := print(&text); err != nil {
		return err
	}
	_, err = io.WriteString(out, fold(text.String(), columns))
	return err
}

// indented matches what a line begins with before the text that is to be folded: its name and the space behind, or space.
var indented = regexp.MustCompile(`^(?:[a-z]+(?: [a-z]+)? {2,}| +)`)

// fold folds lines that begin with a name or with space, but for the commands and tables, which are to stay whole.
func fold(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		indent := len(indented.FindString(line))
		if len(line) <= columns || indent == 0 || indent > columns/2 || strings.HasPrefix(line, "  reap ") {
			b.WriteString(line + "\n")
			continue
		}
		body := wordwrap.WrapString(line[indent:], uint(columns-indent))
		b.WriteString(line[:indent] + strings.ReplaceAll(body, "\n", "\n"+strings.Repeat(" ", indent)) + "\n")
	}
	return b.String()
}
