package reaptest

import (
	"fmt"
	"io"
	"sync"
)

// tailSize is how much of a log an error shows.
const tailSize = 16 << 10

// tail keeps the end of what is written to it and passes everything on to next, if there is one.
type tail struct {
	next io.Writer

	mu   sync.Mutex // protects what follows
	last []byte
	all  int64 // how many bytes there have been
}

// Write never fails: where a log goes must not matter to the server.
func (t *tail) Write(p []byte) (int, error) {
	if t.next != nil {
		_, _ = t.next.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	t.all += int64(len(p))
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

// end returns the end of the log as the end of an error's text.
func (t *tail) end() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.last) == 0:
		return "; it logged nothing"
	case t.all > int64(len(t.last)):
		return fmt.Sprintf("; the end of its log:\n[…]%s", t.last)
	default:
		return fmt.Sprintf("; its log:\n%s", t.last)
	}
}

// written returns how many bytes have been written.
func (t *tail) written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}

// since returns what has been written after the first bytes, or the end of it.
func (t *tail) since(bytes int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.all - bytes
	if n == 0 {
		return "nothing"
	}
	if n > int64(len(t.last)) {
		return fmt.Sprintf("[…]%s", t.last)
	}
	return string(t.last[int64(len(t.last))-n:])
}
