package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// mustBeVisible fails if a terminal would act on a text that a command has printed, but for the ends of so many lines.
func mustBeVisible(t *testing.T, shown string, lines int) {
	t.Helper()
	if !utf8.ValidString(shown) {
		t.Errorf("%q is no UTF-8", shown)
	}
	for _, r := range shown {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Fatalf("%q has %U", shown, r)
		}
	}
	if got := strings.Count(shown, "\n"); lines >= 0 && got != lines {
		t.Errorf("%q has %d lines, want %d", shown, got, lines)
	}
}

// FuzzNothingReachesATerminalUnescaped: the bytes of an object, of a file's name and of a server's error, whatever they are and in which
// pieces they come.
func FuzzNothingReachesATerminalUnescaped(f *testing.F) {
	for _, text := range []string{"", "plain", "\x1b[31mred", "\x1b]0;title\a", "a\nforged line", "\u009b31m", "\u202etxt", "\xff\xfe", "half \xe2\x82", "\r\x00\x7f", "é€🙂"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, at int) {
		var whole bytes.Buffer
		err := visibly(&whole, false, func(out io.Writer) error {
			cut := min(max(at, 0), len(text))
			for _, piece := range []string{text[:cut], text[cut:]} {
				if _, err := io.WriteString(out, piece); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		mustBeVisible(t, whole.String(), strings.Count(text, "\n"))

		object := report.Object{Resource: "pods", Name: text, Namespace: text}
		for name, p := range map[string]struct {
			printed printable
			lines   int
		}{
			"deleted": {report.Deleted{Failed: []report.NotDeleted{{Object: object, Error: text}}}, -1},
			"listed":  {listedSnapshots{Snapshots: []snapshot.File{{Name: text, Problem: text + "x"}}}, 2},
			"pruned":  {prunedSnapshots{Removed: []snapshot.File{{Name: text}}}, 1},
			"status":  {report.Status{Running: true, Since: time.Unix(0, 0), Monitors: []report.Monitor{{Resource: text, Error: text + "x"}}}, -1},
		} {
			t.Run(name, func(t *testing.T) {
				var out bytes.Buffer
				if err := print(&out, "text", p.printed); err != nil {
					t.Fatal(err)
				}
				mustBeVisible(t, out.String(), p.lines)
			})
		}
		var out bytes.Buffer
		printError(&out, stringError(text))
		mustBeVisible(t, out.String(), 1)

		out.Reset()
		say(&out, "held by %s\n", text)
		mustBeVisible(t, out.String(), 1+strings.Count(text, "\n"))

		entry := &logrus.Entry{Level: logrus.WarnLevel, Message: text, Data: logrus.Fields{componentField: text, "object": text, "error": stringError(text)}}
		for name, f := range map[string]logrus.Formatter{
			"log on a terminal": terminalFormatter{colours: report.Plain, columns: func() int { return 1 << 20 }},
			"log as text":       formatter("text", &out),
			"log as JSON":       formatter("json", &out),
		} {
			line, err := f.Format(entry)
			if err != nil {
				t.Fatal(name, err)
			}
			mustBeVisible(t, string(line), 1)
		}

		const columns = 60
		drawn := []string{text, "held by " + text}
		out.Reset()
		(&block{out: &out, width: func() int { return columns }}).draw(drawn)
		mustBeVisible(t, undrawn.Replace(out.String()), 2)
		out.Reset()
		if err := (&screen{out: &out, size: func() (int, int) { return columns, 20 }}).draw(drawn); err != nil {
			t.Fatal(err)
		}
		mustBeVisible(t, undrawn.Replace(out.String()), 1)

		out.Reset()
		status := report.Status{Running: true, Monitors: []report.Monitor{{Resource: text, Error: text}}}
		if err := print(&out, "json", status); err != nil {
			t.Fatal(err)
		}
		mustBeVisible(t, out.String(), -1)
	})
}

// undrawn takes out what draws: all that remains is of others.
var undrawn = strings.NewReplacer(hideCursor, "", clearAll, "", home, "", clearLine, "", clearBelow, "", "\r\n", "\n", "\r", "")

type stringError string

func (e stringError) Error() string { return string(e) }

// TestColoursPass where there are any, and nothing else of a terminal's.
func TestColoursPass(t *testing.T) {
	const text = "\x1b[31mred\x1b[0m \x1b]0;title\a\x1b[2J"
	for colours, want := range map[bool]string{
		true:  "\x1b[31mred\x1b[0m \\x1b]0;title\\a\\x1b[2J",
		false: "\\x1b[31mred\\x1b[0m \\x1b]0;title\\a\\x1b[2J",
	} {
		var out bytes.Buffer
		err := visibly(&out, colours, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil || out.String() != want {
			t.Errorf("colours %v: %q, %v", colours, out.String(), err)
		}
	}
}
