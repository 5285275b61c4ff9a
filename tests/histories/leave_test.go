package histories

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// logs names the directory that keeps what helps to understand a failure; scripts/test sets it.
const logs = "REAP_TEST_LOGS"

// failedDir is where a failed run leaves what helps to understand it.
func failedDir(t *testing.T) string {
	t.Helper()
	top := os.Getenv(logs)
	if top == "" {
		top = filepath.Join("..", "..", "bin", "failed-tests")
	}
	dir, err := filepath.Abs(filepath.Join(top, t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// leave writes the whole history to a file, and returns its path.
func (h *history) leave(t *testing.T) string {
	t.Helper()
	path := filepath.Join(failedDir(t), "history.txt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h.write(f)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return path
}

// write writes all that was seen, each a line: operations and reads in the order of their calls, then each watch. Times are nanoseconds
// since the beginning.
func (h *history) write(to io.Writer) {
	type line struct {
		called int64
		text   string
	}
	var lines []line
	add := func(called, returned int64, format string, a ...any) {
		lines = append(lines, line{called, fmt.Sprintf("%d %d ", called, returned) + fmt.Sprintf(format, a...)})
	}
	operation := func(o porcupine.Operation, answer string) {
		add(o.Call, o.Return, "client %d: %s: %s", o.ClientId, o.Input, answer)
	}
	for _, o := range h.record.all {
		operation(o, o.Output.(answered).String())
	}
	for _, o := range h.record.lost {
		operation(o, "no answer")
	}
	for _, r := range h.reads.all {
		add(r.called, r.returned, "%s", r)
	}
	if h.leases != nil {
		for _, w := range h.leases.writes {
			add(w.called, w.returned, "a lease: %+v", w)
		}
		for _, r := range h.leases.reads {
			add(r.called, r.returned, "keys with leases: %+v", r)
		}
		for _, c := range h.leases.changes {
			add(c.seen, c.seen, "a key with a lease: %+v", c)
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.called, b.called) })
	fmt.Fprintf(to, "seed %d, compacted up to %d\n", h.seed, h.compacted)
	for _, l := range lines {
		fmt.Fprintln(to, l.text)
	}
	for _, w := range h.watchers {
		fmt.Fprintf(to, "%s, of key %d from revision %d, refused %t, error %v, beginnings %+v\n", w.name, w.key, w.from, w.compacted, w.err, w.starts)
		for _, p := range w.pieces {
			if p.progress > 0 {
				fmt.Fprintf(to, "\tall up to revision %d\n", p.progress)
			}
			for _, c := range p.changes {
				fmt.Fprintf(to, "\t%+v\n", c)
			}
		}
	}
}
