package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// event is a line of `go test -json`: see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string // of a package that is not built
	Elapsed                       float64
}

const module = "github.com/reap-dev/reap/"

// shownOf is how many bytes of a failed test's output are shown, its last; the file has all.
const shownOf = 16 << 10

// follow shows what goes on in a row, from the file that its events are written to, until ctx has ended and the file is read.
func follow(ctx context.Context, row row, file string, s *screen) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	defer s.ended(row.Name)
	w := watched{row: row, screen: s, output: map[string]string{}}
	reader := bufio.NewReader(f)
	var part []byte // of a line whose rest is still to come
	for last := false; ; {
		line, err := reader.ReadBytes('\n')
		part = append(part, line...)
		switch {
		case err == nil:
			w.see(part)
			part = part[:0]
		case !errors.Is(err, io.EOF):
			return err
		case last:
			return nil
		default:
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				last = true
			}
		}
	}
}

// watched is what has been seen of a row's events.
type watched struct {
	row    row
	screen *screen
	output map[string]string // of tests that run, by package and name; of packages, and of builds
	failed map[string]bool   // packages with a failed test
}

func (w *watched) see(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		return // a message of go test's own
	}
	test, sub, _ := strings.Cut(e.Test, "/")
	key := e.Package + " " + test
	switch e.Action {
	case "build-output":
		w.keep("build "+e.ImportPath, e.Output)
	case "output":
		w.keep(key, e.Output)
	case "run":
		if sub == "" {
			w.screen.began(w.row.Name, test)
		}
	case "pass", "skip":
		if sub == "" {
			delete(w.output, key)
			w.screen.passed(w.row.Name, test)
		}
	case "fail":
		if sub == "" {
			w.fail(e, test, key)
		}
	}
}

func (w *watched) keep(key, text string) {
	all := w.output[key] + text
	w.output[key] = all[max(0, len(all)-shownOf):]
}

// fail shows a failed test, or a package that has failed outside any test.
func (w *watched) fail(e event, test, key string) {
	if w.failed == nil {
		w.failed = map[string]bool{}
	}
	pkg := strings.TrimPrefix(e.Package, module)
	text, what := w.output[key], pkg
	delete(w.output, key)
	if test == "" {
		if w.failed[e.Package] {
			return // its tests have been shown
		}
		text += w.output["build "+e.FailedBuild]
	} else {
		w.failed[e.Package] = true
		what = test
	}
	w.screen.passed(w.row.Name, test)
	how := ""
	if w.row.Race {
		how = "-race "
	}
	w.screen.say(fmt.Sprintf("=== FAIL: %s %s (%s, %.2fs)\n%s\nrepeat it with: ./scripts/test %s%s", pkg, test, w.row.Name, e.Elapsed, strings.TrimRight(text, "\n"), how, what))
}
