package summary

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// event is a line of `go test -json`: see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Key, Value                    string // of an attribute
	ImportPath                    string // of a failed build
	Time                          time.Time
	Elapsed                       float64 // in seconds, of a test or a package that has ended
}

// outcome is how a test ended, and in which run.
type outcome struct {
	row            string // as the file names it
	run, pkg, test string
	says           string // its last output
}

// failure is the test that has failed with a subtest, as Failures has it.
func (o outcome) failure(of *runs) Failure {
	test, _, _ := strings.Cut(o.test, "/")
	return Failure{Row: o.row, Package: o.pkg, Test: test, Race: of.raced[o.row+" "+o.pkg]}
}

func (o outcome) name() string { return o.pkg + " " + o.test }

func (o outcome) String() string {
	s := o.pkg
	if o.test != "" {
		s += " " + o.test
	}
	if o.run != "" {
		s += " (" + o.run + ")"
	}
	if o.says != "" {
		s += ": " + o.says
	}
	return s
}

// runs adds up several runs of go test.
type runs struct {
	counts          map[string]int // tests and subtests by how they ended
	skipped, failed []outcome
	power           []outcome
	suppressed      int
	times           []times
	tests           []took          // those that are no subtests
	passes          map[string]int  // of those, by their names
	raced           map[string]bool // rows and packages in which the detector has found a race
}

// took is how long a package or a test took. A test that waited for others to run beside it did not take that time.
type took struct {
	name    string
	elapsed time.Duration
}

func (t took) String() string { return fmt.Sprint(t.elapsed.Round(time.Second), " ", t.name) }

// times are those of one run.
type times struct {
	took
	packages []took
}

// shown is how long a package has to take to be worth a mention.
const shown = 5 * time.Second

// String has the packages that took longest first.
func (t times) String() string {
	var all []string
	for _, p := range longest(t.packages, len(t.packages)) {
		if p.elapsed >= shown {
			all = append(all, p.String())
		}
	}
	if len(all) == 0 {
		return t.took.String()
	}
	return t.took.String() + ": " + strings.Join(all, ", ")
}

// longest returns the n that took longest, the longest first.
func longest(all []took, n int) []took {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b took) int { return cmp.Compare(b.elapsed, a.elapsed) })
	return all[:min(n, len(all))]
}

func newRuns() *runs {
	return &runs{counts: map[string]int{}, passes: map[string]int{}, raced: map[string]bool{}}
}

const module = "github.com/reap-dev/reap/"

// readFile reads the events of one run. The file's name, without "events" and its extension, names the run. A run in which no
// package has ended has failed; so has one without a test, if it has to have some.
func (r *runs) readFile(name string, hasTests bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	base := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	row := strings.Trim(strings.TrimPrefix(base, "events"), "-")
	run := strings.ReplaceAll(row, "-", ", ")
	before := r.ended()
	if err := r.read(f, row, run); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	failed := outcome{row: row, run: run, pkg: "the run"}
	switch {
	case len(r.times[len(r.times)-1].packages) == 0:
		failed.says = "no package has ended"
	case hasTests && r.ended() == before:
		failed.says = "no test has run"
	default:
		return nil
	}
	r.counts["fail"]++
	r.failed = append(r.failed, failed)
	return nil
}

// ended counts the tests that have ended.
func (r *runs) ended() int { return r.counts["pass"] + r.counts["fail"] + r.counts["skip"] }

func (r *runs) read(from io.Reader, row, run string) error {
	type key struct{ pkg, test string }
	last := map[key]string{}      // the last line with text
	running := map[key]bool{}     // tests that have not ended
	failedIn := map[string]bool{} // packages with a failed test
	didNotEnd := func(k key) {
		delete(running, k)
		r.counts["fail"]++
		r.failed = append(r.failed, outcome{row: row, run: run, pkg: k.pkg, test: k.test, says: "it did not end"})
	}
	var begin, end time.Time
	mine := times{took: took{name: cmp.Or(run, "all")}}
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue // go test's own messages, or a line that was cut off when the run was stopped
		}
		if !e.Time.IsZero() {
			if begin.IsZero() {
				begin = e.Time
			}
			end = e.Time
		}
		pkg := strings.TrimPrefix(e.Package, module)
		k := key{pkg, e.Test}
		o := outcome{row: row, run: run, pkg: pkg, test: e.Test}
		switch e.Action {
		case "output":
			r.suppressed += suppressions(e.Output)
			if strings.Contains(e.Output, "WARNING: DATA RACE") {
				r.raced[row+" "+pkg] = true
			}
			if s := strings.TrimSpace(e.Output); s != "" && !strings.HasPrefix(s, "---") && !strings.HasPrefix(s, "===") {
				last[k] = s
			}
		case "attr":
			if e.Key == "power" {
				o.says = e.Value
				r.power = append(r.power, o)
			}
		case "run":
			running[k] = true
		case "pass", "fail", "skip":
			delete(running, k)
			elapsed := time.Duration(e.Elapsed * float64(time.Second))
			switch {
			case e.Test == "":
				mine.packages = append(mine.packages, took{pkg, elapsed})
			case !strings.Contains(e.Test, "/"):
				if e.Action == "pass" {
					r.passes[e.Test]++
				}
				r.tests = append(r.tests, took{o.String(), elapsed})
			}
			if e.Test == "" {
				for k := range running { // the package timed out or was stopped
					if k.pkg == pkg {
						didNotEnd(k)
						failedIn[pkg] = true
					}
				}
				// A package that fails outside any test (its build, TestMain) counts as one.
				if e.Action == "fail" && !failedIn[pkg] {
					o.says = last[k]
					r.counts["fail"]++
					r.failed = append(r.failed, o)
				}
				continue
			}
			r.counts[e.Action]++
			switch e.Action {
			case "fail":
				failedIn[pkg] = true
				o.says = last[k]
				r.failed = append(r.failed, o)
			case "skip":
				o.says = last[k]
				r.skipped = append(r.skipped, o)
			}
		}
	}
	for k := range running { // the run was stopped
		didNotEnd(k)
	}
	mine.elapsed = end.Sub(begin)
	r.times = append(r.times, mine)
	return nil
}

// matched is a line that the race detector prints when a process ends.
var matched = regexp.MustCompile(`(?m)ThreadSanitizer: Matched (\d+) suppressions`)

func suppressions(text string) (n int) {
	for _, m := range matched.FindAllStringSubmatch(text, -1) {
		i, _ := strconv.Atoi(m[1]) // digits
		n += i
	}
	return n
}

// readLogs counts the suppressed races in the servers' logs.
func (r *runs) readLogs(dir string) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		raw, err := os.ReadFile(path)
		r.suppressed += suppressions(string(raw))
		return err
	})
}

// readSkips reads which tests may be skipped: a package, a test and a reason on each line.
func readSkips(file string) (map[string]bool, error) {
	allowed := map[string]bool{}
	if file == "" {
		return allowed, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: needs a package, a test and a reason", file, i+1)
		}
		allowed[fields[0]+" "+fields[1]] = true
	}
	return allowed, nil
}
