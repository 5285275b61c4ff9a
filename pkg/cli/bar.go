package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/reap-dev/reap/pkg/gc/listing"
)

// terminal returns the file that a stream is, if that is a terminal; else nil.
func terminal(stream any) *os.File {
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// newBar returns a progress bar that draws on a terminal alone, and vanishes when it is
// finished. what is counted is said behind the numbers.
func newBar(out io.Writer, description, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(1,
		progressbar.OptionSetWriter(out), progressbar.OptionSetVisibility(terminal(out) != nil),
		progressbar.OptionSetDescription(description), progressbar.OptionSetItsString(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(65*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(false), progressbar.OptionFullWidth(),
	)
}

// newWriteBar returns a bar for so many objects that a command writes.
func newWriteBar(out io.Writer, description string, objects int) *progressbar.ProgressBar {
	bar := newBar(out, description, "objects")
	bar.ChangeMax(objects)
	return bar
}

// listingBar shows how far a listing has come.
type listingBar struct {
	bar       *progressbar.ProgressBar
	verifying bool
	out       io.Writer
}

func newListingBar(out io.Writer) *listingBar {
	return &listingBar{bar: newBar(out, "listing", "objects"), out: out}
}

// show is for listing.Options.Progress. That the bar cannot be drawn changes no answer. There is
// always one more to come than is known: a bar that has reached its end is not drawn again.
func (b *listingBar) show(p listing.Progress) {
	if p.Owners > 0 {
		if !b.verifying {
			b.done()
			b.bar, b.verifying = newBar(b.out, "reading owners", "owners"), true
			b.bar.ChangeMax(p.Owners + 1)
		}
		_ = b.bar.Set(p.Read)
		return
	}
	b.bar.ChangeMax(p.Expected + 1)
	b.bar.Describe(fmt.Sprintf("listing: %d of %d resources", p.Listed, p.Resources))
	_ = b.bar.Set(p.Objects)
}

// done takes the bar off the terminal.
func (b *listingBar) done() { _ = b.bar.Finish() }
