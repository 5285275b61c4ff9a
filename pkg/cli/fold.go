package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"
	"golang.org/x/term"
)

// folded writes what a report prints to a stream, with lines that are too long for a terminal folded between words, below
// the column that they begin in. A file or a pipe gets each line as it is. Neither gets what a terminal would act on: see visibleWriter.
func folded(out io.Writer, print func(io.Writer) error) error {
	f := terminal(out)
	if f == nil {
		return visibly(out, false, print)
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 40 {
		return visibly(out, true, print)
	}
	var text bytes.Buffer
	if err := visibly(&text, true, print); err != nil {
		return err
	}
	_, err = io.WriteString(out, fold(text.String(), columns))
	return err
}

var (
	// indented matches what a line begins with before the text that is to be folded: its name and the space behind, or space.
	indented = regexp.MustCompile(`^(?:[a-z]+(?: [a-z]+)? {2,}| +)`)
	// heading is the first line of a table, up to its last column.
	heading = regexp.MustCompile(`^([A-Z]+(?: [A-Z]+)* {2,})+[A-Z]+(?: [A-Z]+)*$`)
	// colour is what turns a colour on or off.
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// coloured matches a text that is coloured as a whole.
	coloured = regexp.MustCompile("^(\x1b\\[[0-9;]*m)([^\x1b]*)(\x1b\\[[0-9;]*m)$")
)

// narrowest is how many columns a text is folded to at the least.
const narrowest = 10

// fold folds lines, those of tables in their last column, but not the commands, which are to be copied.
func fold(text string, columns int) string {
	var b strings.Builder
	table := 0 // the last column of the table
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch at := heading.FindStringSubmatchIndex(line); {
		case line == "":
			table = 0
		case at != nil:
			table = at[3]
		}
		indent := table
		if table == 0 {
			indent = len(indented.FindString(line))
		}
		runes := []rune(line)
		if width(line) <= columns || indent >= len(runes) || indent+narrowest > columns || strings.HasPrefix(line, "  reap ") {
			b.WriteString(line + "\n")
			continue
		}
		body, on, off := string(runes[indent:]), "", ""
		if parts := coloured.FindStringSubmatch(body); parts != nil {
			on, body, off = parts[1], parts[2], parts[3]
		}
		body = wordwrap.WrapString(body, uint(columns-indent))
		b.WriteString(string(runes[:indent]) + on + strings.ReplaceAll(body, "\n", "\n"+strings.Repeat(" ", indent)) + off + "\n")
	}
	return b.String()
}

// width is how many columns a line takes.
func width(line string) int { return utf8.RuneCountInString(colour.ReplaceAllString(line, "")) }
