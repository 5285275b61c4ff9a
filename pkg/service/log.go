package service

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// logPlace is where in the service's log a start begins.
type logPlace struct {
	at   time.Time // in systemd's journal
	size int64     // in OpenRC's file
}

func (p place) logNow() logPlace {
	now := logPlace{at: time.Now()}
	if info, err := os.Stat(p.at(p.logFile())); err == nil {
		now.size = info.Size()
	}
	return now
}

// explain adds to the error of a start the server's own last error, and where the log is.
func (i *Installation) explain(ctx context.Context, since logPlace, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	where := "journalctl -u " + i.service
	text := ""
	if i.init.kind == Systemd {
		text = i.readJournal(ctx, since)
	} else {
		where, text = i.logFile(), i.readLog(since)
	}
	if said := lastError(text); said != "" {
		return fmt.Errorf("%w: its log says %q; see: %s", err, said, where)
	}
	return fmt.Errorf("%w; see: %s", err, where)
}

// readJournal returns what the service's own processes have logged; "" if that cannot be read.
func (p place) readJournal(ctx context.Context, since logPlace) string {
	p.ask(ctx, "journalctl", "--sync") // what has just been written is not there yet
	// The newest line first: with --since, systemd shows the first lines otherwise, and not the last.
	out, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", "--reverse", "--lines=200",
		fmt.Sprintf("--since=@%d", since.at.Unix()), "_SYSTEMD_UNIT="+p.service+".service").Output()
	if err != nil {
		return ""
	}
	lines := slices.Collect(strings.Lines(string(out)))
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

// mostLog bounds how much of a log is read for a server's last error.
const mostLog = 256 << 10

func (p place) readLog(since logPlace) string {
	f, err := os.Open(p.at(p.logFile()))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, max(since.size, info.Size()-mostLog), mostLog))
	if err != nil {
		return ""
	}
	return string(raw)
}

// longestError bounds what is shown of a log.
const longestError = 500

// lastError returns the error with which a server has ended: the last line of that form, or the last line of all.
func lastError(log string) (last string) {
	found := false
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(strings.ToValidUTF8(line, ""))
		is := strings.HasPrefix(line, "reap: ") || strings.Contains(line, `"level":"error"`)
		if line != "" && (is || !found) {
			last, found = line, found || is
		}
	}
	if len(last) > longestError {
		last = strings.ToValidUTF8(last[:longestError], "") + "..."
	}
	return last
}
