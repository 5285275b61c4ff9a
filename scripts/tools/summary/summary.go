// Package summary ends a run of scripts/test. It reads the events of `go test -json` and reports what was tried, how long it took, what
// was skipped and why, which tests were flaky, how many races were suppressed, and how many tests passed.
package summary

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// listed is how many of the longest tests are named.
const listed = 10

// Options say what a summary needs to know beside the events.
type Options struct {
	// Strict fails a run in which a test was skipped that Skips, a file, does not list, or that went without something Missing.
	Strict  bool
	Skips   string
	Missing string
	// Complete fails a file without a test.
	Complete bool
	Size     string // of the tests
	Logs     string // the directory of the servers' logs; "" for none
	Took     time.Duration
	Left     string // to the release, in words
	// Flaky are the failures that do not count, unless they are more than Forgiven.
	Flaky    map[Failure]bool
	Forgiven int
}

// Failure is a test that has failed, and no subtest; or a package, if Test is empty.
type Failure struct {
	Row, Package, Test string
	Race               bool // the detector has found one in the package
}

// Failures returns what has failed according to files of events, in their order.
func Failures(files []string) ([]Failure, error) {
	all := newRuns()
	for _, file := range files {
		if err := all.readFile(file, false); err != nil {
			return nil, err
		}
	}
	var failed []Failure
	seen := map[Failure]bool{}
	for _, o := range all.failed {
		f := o.failure(all)
		if !seen[f] {
			seen[f] = true
			failed = append(failed, f)
		}
	}
	return failed, nil
}

// Passed returns how often a test, and no subtest, has passed according to a file of events; 0 if anything in the file has failed.
func Passed(file, test string) (times int, err error) {
	all := newRuns()
	if err := all.readFile(file, false); err != nil {
		return 0, err
	}
	if len(all.failed) > 0 {
		return 0, nil
	}
	return all.passes[test], nil
}

// Write writes the summary of files of events. The code is 1 if a test failed, no package of some file has ended, or something is missing that
// the options require, and 3 if no test ran to its end.
func Write(w io.Writer, o Options, files []string) (code int, err error) {
	if len(files) == 0 {
		return 1, errors.New("needs the files with the events of the tests")
	}
	allowed, err := readSkips(o.Skips)
	if err != nil {
		return 1, err
	}
	all := newRuns()
	for _, file := range files {
		if err := all.readFile(file, o.Complete); err != nil {
			return 1, err
		}
	}
	if err := all.readLogs(o.Logs); err != nil {
		return 1, err
	}
	fmt.Fprintln(w, "size:", o.Size)
	for _, p := range all.power {
		fmt.Fprintln(w, "tried:", p)
	}
	for _, t := range all.times {
		fmt.Fprintln(w, "took:", t)
	}
	fmt.Fprintf(w, "took: %v in all, with %d cores\n", o.Took, runtime.NumCPU())
	for _, t := range longest(all.tests, listed) {
		fmt.Fprintln(w, "longest:", t)
	}
	fmt.Fprintf(w, "tried: races passed over: %d (tests/race.suppressions)\n", all.suppressed)
	forbidden := 0
	for _, s := range all.skipped {
		if allowed[s.name()] {
			fmt.Fprintln(w, "skipped, as listed:", s)
			continue
		}
		forbidden++
		fmt.Fprintln(w, "skipped:", s)
	}
	for name := range strings.FieldsSeq(o.Missing) {
		forbidden++
		fmt.Fprintln(w, "not installed:", name)
	}
	flaky := map[Failure]bool{}
	for _, f := range all.failed {
		if key := f.failure(all); o.Flaky[key] {
			flaky[key] = true
			all.counts["fail"]--
			fmt.Fprintln(w, "flaky:", f)
			continue
		}
		fmt.Fprintln(w, "failed:", f)
	}
	if o.Left != "" {
		fmt.Fprintln(w, "left to --release:", o.Left)
	}
	switch {
	case all.counts["fail"] > 0:
		code = 1
	case len(flaky) > o.Forgiven:
		fmt.Fprintf(w, "%d flaky tests are more than the %d that a run forgives\n", len(flaky), o.Forgiven)
		code = 1
	case o.Strict && forbidden > 0:
		fmt.Fprintf(w, "%d skipped or not installed that the run needs\n", forbidden)
		code = 1
	case all.counts["pass"] == 0:
		fmt.Fprintln(w, "no test ran to its end")
		code = 3
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d flaky, %d skipped\n", all.counts["pass"], all.counts["fail"], len(flaky), all.counts["skip"])
	return code, nil
}
