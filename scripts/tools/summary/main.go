// Command summary ends a run of scripts/test. It reads the events of `go test -json` and reports what was tried, how long it took, what
// was skipped and why, how many races were suppressed, and how many tests passed.
//
// Its exit code is 1 if a test failed, no package of some file has ended, or something is missing that -strict or -complete requires, and 3
// if no test ran to its end.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// listed is how many of the longest tests are named.
const listed = 10

// options are the flags.
type options struct {
	strict, complete           bool
	skips, missing, size, logs string
	took                       time.Duration
}

func main() {
	var o options
	flag.BoolVar(&o.strict, "strict", false, "fail if a test was skipped that is not in the list, or something could not be installed")
	flag.BoolVar(&o.complete, "complete", false, "fail if a file has no test")
	flag.StringVar(&o.skips, "skips", "", "the `file` that lists the tests that may be skipped")
	flag.StringVar(&o.missing, "missing", "", "the `packages` that could not be installed")
	flag.StringVar(&o.size, "size", "gate", "the tests' size")
	flag.StringVar(&o.logs, "logs", "", "the `directory` with the servers' logs")
	flag.DurationVar(&o.took, "took", 0, "how long everything took, compiling included")
	flag.Parse()
	code, err := run(os.Stdout, o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		code = 1
	}
	os.Exit(code)
}

func run(w io.Writer, o options, files []string) (code int, err error) {
	if len(files) == 0 {
		return 1, errors.New("needs the files with the events of the tests")
	}
	allowed, err := readSkips(o.skips)
	if err != nil {
		return 1, err
	}
	all := newRuns()
	for _, file := range files {
		if err := all.readFile(file, o.complete); err != nil {
			return 1, err
		}
	}
	if err := all.readLogs(o.logs); err != nil {
		return 1, err
	}
	fmt.Fprintln(w, "size:", o.size)
	for _, p := range all.power {
		fmt.Fprintln(w, "tried:", p)
	}
	for _, t := range all.times {
		fmt.Fprintln(w, "took:", t)
	}
	fmt.Fprintf(w, "took: %v in all, with %d cores\n", o.took, runtime.NumCPU())
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
	for name := range strings.FieldsSeq(o.missing) {
		forbidden++
		fmt.Fprintln(w, "not installed:", name)
	}
	for _, f := range all.failed {
		fmt.Fprintln(w, "failed:", f)
	}
	switch {
	case all.counts["fail"] > 0:
		code = 1
	case o.strict && forbidden > 0:
		fmt.Fprintf(w, "%d skipped or not installed that the run needs\n", forbidden)
		code = 1
	case all.counts["pass"] == 0:
		fmt.Fprintln(w, "no test ran to its end")
		code = 3
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", all.counts["pass"], all.counts["fail"], all.counts["skip"])
	return code, nil
}
