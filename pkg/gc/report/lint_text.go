package report

import (
	"fmt"
	"io"
	"strings"
)

// effectHeads are the headings of the findings, by what will happen.
var effectHeads = []struct{ effect, head string }{
	{"collected", "WILL BE COLLECTED"},
	{"stuck", "WILL NOT END BY ITSELF"},
	{"dropped", "THE REFERENCE WILL BE REMOVED"},
	{"kept", "STAYS"},
	{"undecided", "NOT DECIDED YET"},
}

// Print writes the findings for people, by what will happen.
func (l Lint) Print(out io.Writer) error { return l.PrintIn(out, Plain) }

// PrintIn is Print in colours.
func (l Lint) PrintIn(out io.Writer, p Palette) error {
	if err := l.Basis.Print(out); err != nil {
		return err
	}
	var b strings.Builder
	if l.Count == 0 {
		if len(l.Basis.Incomplete) > 0 {
			fmt.Fprintf(&b, "nothing wrong was found in the references of %s that could be read; the others were not looked at%s\n", l.objects(), l.elsewhere())
		} else {
			fmt.Fprintf(&b, "nothing is wrong with the references of %s%s\n", l.objects(), l.elsewhere())
		}
	}
	for _, h := range effectHeads {
		if l.ByEffect[h.effect] == 0 {
			continue
		}
		head := h.head
		if l.Basis.Pause != nil && (h.effect == "collected" || h.effect == "dropped") {
			head += " ONCE THE PAUSE ENDS"
		}
		head = fmt.Sprintf("%s (%d)", head, l.ByEffect[h.effect])
		if h.effect == "collected" || h.effect == "stuck" {
			head = p.Bad(head)
		}
		fmt.Fprintln(&b, head)
		shown := 0
		for i := range l.Findings {
			if l.Findings[i].Effect == h.effect {
				l.Findings[i].print(&b, p)
				shown++
			}
		}
		if more := l.ByEffect[h.effect] - shown; more > 0 {
			fmt.Fprintf(&b, "  and %d more; --limit=0 shows all\n", more)
		}
		fmt.Fprintln(&b)
	}
	if l.Count > 0 {
		fmt.Fprintf(&b, "%s in %s%s\n", count(l.Count, "finding"), l.objects(), l.elsewhere())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (f *Finding) print(b *strings.Builder, p Palette) {
	fmt.Fprintf(b, "  %s  %s\n", p.Strong(f.Object.String()), p.Faint(string(f.Code)))
	if f.File != "" {
		fmt.Fprintf(b, "      in %s\n", f.File)
	}
	text := f.Text
	if len(f.Finalizers) > 0 {
		text += ": " + visible(strings.Join(f.Finalizers, ", "))
	}
	fmt.Fprintf(b, "      %s\n", text)
	fmt.Fprintf(b, "      %s\n", f.Will)
	fmt.Fprintf(b, "      to mend it: %s\n", f.Mend)
}
