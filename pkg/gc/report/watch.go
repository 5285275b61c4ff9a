package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/schollz/progressbar/v3"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/reap-dev/reap/pkg/gc/decide"
)

// Screen returns the status as lines for a terminal of so many columns and rows: none is longer, and there are no more.
// server says whom the command talks to.
func (s Status) Screen(server string, columns, rows int) []string {
	lines := []string{fmt.Sprintf("reap status of %s at %s (Ctrl-C ends)", server, s.Now.Format(time.TimeOnly))}
	if !s.Running {
		return fit(append(lines, "collector  not running: "+s.Absent), columns, rows)
	}
	lines = append(lines, fmt.Sprintf("collector  running for %s, %d of %d workers busy, %s deleted", ago(s.Since, s.Now), s.Busy, s.Workers, count(s.Collected, "object")))
	if s.Pause != nil {
		lines = append(lines, "paused     "+pauseText(s.Pause, s.Now))
	}
	lines = append(lines, "graph      "+s.graphText(), "queues     "+s.queuesText())
	if text := monitorsText(s.Monitors); s.troubled() {
		lines = append(lines, "monitors   "+text)
	}
	lines = append(lines, "", fmt.Sprintf("CASCADES (%d)", s.CascadeCount))
	for _, c := range s.Cascades {
		lines = append(lines, c.lines(s.Now, columns)...)
	}
	if more := s.CascadeCount - len(s.Cascades); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if s.FailingCount > 0 {
		lines = append(lines, "", fmt.Sprintf("FAILING (%d)", s.FailingCount))
		for _, f := range s.Failing {
			lines = append(lines, fmt.Sprintf("%s, for %s: %s", f.Object, ago(f.Since, s.Now), f.Error))
		}
	}
	for _, m := range s.Monitors {
		if m.Error != "" {
			lines = append(lines, "", fmt.Sprintf("CANNOT LIST %s for %s: %s", m.Resource, ago(m.Since, s.Now), m.Error))
		}
	}
	for _, h := range s.Holds {
		lines = append(lines, "", "HOLDS ORPHANING "+h.text())
	}
	return fit(lines, columns, rows)
}

// troubled is true if not every resource is watched.
func (s Status) troubled() bool {
	for _, m := range s.Monitors {
		if m.State != "synced" {
			return true
		}
	}
	return false
}

// lines shows one cascade: its root, how far it has come, and what holds it.
func (c Cascade) lines(now time.Time, columns int) []string {
	head := fmt.Sprintf("%s  %s for %s", c.Root, c.Policy, ago(c.Began, now))
	if c.Ended() {
		return []string{head + fmt.Sprintf(": done, %d deleted", c.Deleted)}
	}
	lines := []string{head, "  " + c.progress(columns)}
	for _, h := range c.HeldBy[:min(len(c.HeldBy), 3)] {
		lines = append(lines, fmt.Sprintf("  held by %s: %s", h.Object, h.brief()))
	}
	if more := c.HeldByCount - min(len(c.HeldBy), 3); more > 0 {
		lines = append(lines, fmt.Sprintf("  and by %d more", more))
	}
	return lines
}

// brief says in few words why a holder stays.
func (h Holder) brief() string {
	switch decide.Reason(h.Reason) {
	case decide.BeingDeleted:
		if len(h.Finalizers) > 0 {
			return finalizerNames(h.Finalizers)
		}
		return "a finalizer or a grace period keeps it"
	case decide.OwnerUnknown:
		return "nobody serves the kind of an owner"
	}
	return h.Text
}

// progress is the bar of a cascade, its rate and what is left.
func (c Cascade) progress(columns int) string {
	left := fmt.Sprint(c.Left)
	if c.LeftOrMore {
		left = "more than " + left
	}
	text := fmt.Sprintf("%d deleted, %s left", c.Deleted, left)
	if c.PerSecond >= 1 && c.HeldByCount > 0 {
		text += fmt.Sprintf(", %.0f/s", c.PerSecond) // when it ends depends on what holds it
	} else if c.PerSecond >= 1 {
		text += fmt.Sprintf(", %.0f/s, %s to go", c.PerSecond, duration.HumanDuration(time.Duration(float64(c.Left)/c.PerSecond*float64(time.Second))))
	}
	return Bar(c.Deleted, c.Deleted+c.Left, max(10, min(40, columns/3))) + " " + text
}

// Bar draws how much of all is done, its frame and percentage included, with a bar of so many columns.
func Bar(done, all, columns int) string {
	b := progressbar.NewOptions(max(all, 1), progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetWidth(columns),
		progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(0))
	if all == 0 {
		done = 1
	}
	if done == 0 {
		_ = b.RenderBlank() // writes to nothing
	} else {
		_ = b.Set(min(done, max(all, 1))) // the same
	}
	return strings.TrimSpace(b.String())
}

// fit cuts lines to a terminal. What is cut is marked.
func fit(lines []string, columns, rows int) []string {
	if rows > 1 && len(lines) > rows {
		more := len(lines) - rows + 1
		lines = append(lines[:rows-1:rows-1], fmt.Sprintf("… and %d more lines: make the window higher, or see reap status", more))
	}
	for i, l := range lines {
		lines[i] = Cut(l, columns)
	}
	return lines
}

// Cut shortens a line to so many columns of a terminal; what a terminal would act on is shown as escapes.
func Cut(line string, columns int) string {
	line = visible(line)
	if columns <= 0 || uniseg.StringWidth(line) <= columns {
		return line
	}
	out, width := "", 0
	for g := uniseg.NewGraphemes(line); g.Next(); {
		if width += g.Width(); width > columns-1 {
			break
		}
		out += g.Str()
	}
	return out + "…"
}

func (s Status) graphText() string {
	return fmt.Sprintf("%s, %s, %s that no monitor shows", count(s.Objects, "object"), count(s.References, "reference"), count(s.Virtual, "owner"))
}

func (s Status) queuesText() string {
	var queues []string
	for _, q := range s.Queues {
		text := fmt.Sprintf("%s %d", q.Name, q.Length)
		if q.Length > 0 {
			text += fmt.Sprintf(" (oldest %s)", duration.HumanDuration(time.Duration(q.OldestSeconds*float64(time.Second))))
		}
		queues = append(queues, text)
	}
	return strings.Join(queues, ", ")
}

func (h Hold) text() string {
	return fmt.Sprintf("%s: %s; to end this, %s, or set --gc-orphan-timeout", cmp.Or(h.Resource, "APIService "+h.APIService), oneLine(h.Why), h.Remedy)
}

// Lost is Screen for a server that has stopped answering.
func Lost(server string, err error, now time.Time, columns, rows int) []string {
	return fit([]string{
		fmt.Sprintf("reap status of %s at %s (Ctrl-C ends)", server, now.UTC().Format(time.TimeOnly)),
		"no answer; asking again: " + err.Error(),
	}, columns, rows)
}
