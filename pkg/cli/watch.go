package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// screen is a terminal that a command draws on again and again.
type screen struct {
	out     io.Writer
	size    func() (columns, rows int)
	started bool
}

// newScreen returns the terminal that out is, or nil if it is none.
func newScreen(out io.Writer) *screen {
	f := terminal(out)
	if f == nil {
		return nil
	}
	return &screen{out: out, size: func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 || rows <= 0 {
			return 80, 24
		}
		return columns, rows
	}}
}

// The terminal's control sequences (ECMA-48, and DEC's for the cursor).
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearAll   = "\x1b[2J"
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// draw replaces what the screen shows. It is written at once, so that nothing flickers.
func (s *screen) draw(lines []string) error {
	var b strings.Builder
	if !s.started {
		s.started = true
		b.WriteString(hideCursor + clearAll)
	}
	b.WriteString(home)
	columns, _ := s.size()
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(report.Cut(l, columns) + clearLine)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// end leaves what was drawn last, with the cursor below it.
func (s *screen) end() {
	if s.started {
		_, _ = io.WriteString(s.out, showCursor+"\r\n") // nobody is left to tell
	}
}

// watchStatus shows the status again and again until ctx ends. On a terminal it is redrawn, and a server that does not
// answer is waited for; elsewhere one status follows the other, as JSON one a line, and an error ends it.
func (c *connection) watchStatus(ctx context.Context, out io.Writer, format string, every time.Duration) error {
	var s *screen
	if format == "text" {
		if s = newScreen(out); s != nil {
			defer s.end()
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		now, err := c.status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (s == nil || first):
			return err
		case err != nil:
			columns, rows := s.size()
			err = s.draw(report.Lost(c.config.Host, err, time.Now(), columns, rows))
		case s != nil:
			columns, rows := s.size()
			err = s.draw(now.Screen(c.config.Host, columns, rows))
		case format == "json":
			err = escape.WriteJSON(out, now, "")
		default:
			if !first {
				fmt.Fprintln(out)
			}
			err = print(out, "text", now)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// answerWithin bounds how long a status is waited for when it is shown again and again.
const answerWithin = 10 * time.Second

// status asks the collector what it is doing.
func (c *connection) status(ctx context.Context) (s report.Status, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %s", answerWithin))
	defer cancel()
	err = c.report(ctx, "status", nil, &s)
	if err != nil && ctx.Err() != nil {
		err = c.failed(context.Cause(ctx))
	}
	return s, err
}
