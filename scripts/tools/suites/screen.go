package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screen is the standard error of a run. On a terminal its last line says what runs.
type screen struct {
	out      io.Writer
	terminal int // the descriptor; -1 if it is none
	start    time.Time

	mu     sync.Mutex
	rows   map[string]*state
	shown  bool
	closed bool
}

// state is that of a row that runs.
type state struct {
	done    int
	running map[string]time.Time // tests, and when they began
}

func newScreen(f *os.File, start time.Time) *screen {
	s := &screen{out: f, terminal: -1, start: start, rows: map[string]*state{}}
	if term.IsTerminal(int(f.Fd())) {
		s.terminal = int(f.Fd())
	}
	return s
}

// keep redraws the last line until done is closed.
func (s *screen) keep(done <-chan struct{}) {
	if s.terminal < 0 {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.mu.Lock()
			s.clear()
			s.draw()
			s.mu.Unlock()
		case <-done:
			s.mu.Lock()
			s.clear()
			s.closed = true
			s.mu.Unlock()
			return
		}
	}
}

// say prints lines above the last one.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintln(s.out, text)
}

// above returns a writer of lines above the last one.
func (s *screen) above() io.Writer { return above{s} }

type above struct{ *screen }

func (a above) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	return a.out.Write(p)
}

func (s *screen) row(name string) *state {
	if s.rows[name] == nil {
		s.rows[name] = &state{running: map[string]time.Time{}}
	}
	return s.rows[name]
}

func (s *screen) began(row, test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row(row).running[test] = time.Now()
}

func (s *screen) passed(row, test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.row(row); test != "" {
		delete(r.running, test)
		r.done++
	}
}

func (s *screen) ended(row string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, row)
}

func (s *screen) clear() {
	if s.shown {
		fmt.Fprint(s.out, "\r\033[K")
		s.shown = false
	}
}

func (s *screen) draw() {
	if s.closed || len(s.rows) == 0 {
		return
	}
	width, _, err := term.GetSize(s.terminal)
	if err != nil {
		return
	}
	line := s.line(time.Now())
	fmt.Fprint(s.out, line[:min(len(line), max(0, width-1))])
	s.shown = true
}

// line says for each row how many tests have ended, and which one runs longest.
func (s *screen) line(now time.Time) string {
	parts := []string{now.Sub(s.start).Truncate(time.Second).String()}
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[name]
		text := fmt.Sprintf("%s %d", name, r.done)
		oldest := ""
		for test, began := range r.running {
			if oldest == "" || began.Before(r.running[oldest]) {
				oldest = test
			}
		}
		if oldest != "" {
			text += fmt.Sprintf(" (%s %s)", oldest, now.Sub(r.running[oldest]).Truncate(time.Second))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}
