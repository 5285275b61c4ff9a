package cli

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// block is a few lines at the end of what a terminal shows, which are drawn again and again. A nil block is for no
// terminal, and draws nothing.
type block struct {
	out   io.Writer
	width func() int
	drawn int // lines
}

// newBlock returns a block on a stream; nil if that is no terminal.
func newBlock(out io.Writer) *block {
	f := terminal(out)
	if f == nil {
		return nil
	}
	return &block{out: out, width: func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	}}
}

func (b *block) columns() int {
	if b == nil {
		return 80
	}
	return b.width()
}

// draw replaces the lines that were drawn before. That they cannot be drawn changes nothing.
func (b *block) draw(lines []string) {
	if b == nil {
		return
	}
	text := b.up()
	for _, l := range lines {
		text += report.Cut(l, b.width()) + clearLine + "\r\n"
	}
	_, _ = io.WriteString(b.out, text+clearBelow)
	b.drawn = len(lines)
}

// clear takes the lines off the terminal.
func (b *block) clear() {
	if b == nil {
		return
	}
	_, _ = io.WriteString(b.out, b.up()+clearBelow)
	b.drawn = 0
}

// up moves the cursor to the first line.
func (b *block) up() string {
	return strings.Repeat(fmt.Sprintf("\x1b[%dA", b.drawn), min(b.drawn, 1)) + "\r"
}
