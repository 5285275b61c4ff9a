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
	cut  bool // whether last is not all of it
}

// Write never fails: where a log goes must not matter to the server.
func (t *tail) Write(p []byte) (int, error) {
	if t.next != nil {
		_, _ = t.next.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
		t.cut = true
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
	case t.cut:
		return fmt.Sprintf("; the end of its log:\n[…]%s", t.last)
	default:
		return fmt.Sprintf("; its log:\n%s", t.last)
	}
}
