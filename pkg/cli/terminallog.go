package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// terminalFormatter writes records for people at a terminal:
//
//	15:04:05 reap is starting  version=v1.0.0 data=/var/lib/reap
//	15:04:06 WARNING gc: resource cannot be listed or watched  resource=levers.example.com
//
// Characters that a terminal would act on are shown as escapes. Fields that do not fit into the line have lines of their own.
type terminalFormatter struct {
	colours report.Palette
	// columns returns the terminal's width.
	columns func() int
}

// newTerminalFormatter returns the formatter for a stream; nil if that is no terminal.
func newTerminalFormatter(out io.Writer) logrus.Formatter {
	f := terminal(out)
	if f == nil {
		return nil
	}
	return terminalFormatter{colours: palette(out), columns: func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return helpWidth
		}
		return columns
	}}
}

// clock is how a terminal shows the time of a record: whoever looks at one knows the day.
const clock = "15:04:05"

func (f terminalFormatter) Format(e *logrus.Entry) ([]byte, error) {
	head := e.Time.Format(clock) + " "
	wide := utf8.RuneCountInString(head)
	head = f.colours.Faint(head)
	if e.Level <= logrus.WarnLevel {
		level := map[logrus.Level]string{logrus.WarnLevel: "WARNING "}[e.Level]
		if level == "" {
			level = "ERROR "
		}
		wide += len(level)
		head += f.colours.Bad(level)
	}
	message := escape.Text(e.Message)
	if component, ok := e.Data[componentField]; ok {
		message = escape.Text(fmt.Sprint(component)) + ": " + message
	}
	wide += utf8.RuneCountInString(message)

	var names []string
	values := map[string]string{}
	longest := 0
	for _, name := range slices.Sorted(maps.Keys(e.Data)) {
		if name == componentField {
			continue
		}
		names = append(names, name)
		longest = max(longest, len(name))
		values[name] = escape.Text(fmt.Sprint(e.Data[name]))
		wide += len(name) + utf8.RuneCountInString(values[name]) + 2
	}
	var b bytes.Buffer
	b.WriteString(head + message)
	for i, name := range names {
		switch {
		case wide > f.columns():
			fmt.Fprintf(&b, "\n         %s  %s", f.colours.Faint(fmt.Sprintf("%-*s", longest, escape.Text(name))), values[name])
		case i == 0:
			fmt.Fprintf(&b, "  %s%s", f.colours.Faint(escape.Text(name)+"="), values[name])
		default:
			fmt.Fprintf(&b, " %s%s", f.colours.Faint(escape.Text(name)+"="), values[name])
		}
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
