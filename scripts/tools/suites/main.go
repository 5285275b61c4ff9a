// Command suites runs the tests, as tests/suites.yaml lists them. scripts/test starts it, and says what the arguments are.
//
// Its exit code is 1 if a test failed, and was not flaky, or something is missing that --strict requires; 2 for arguments that mean nothing; 3
// if no test ran to its end; 130 and 143 if a signal ended it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/reap-dev/reap/scripts/tools/summary"
)

// setting is what scripts/test knows.
type setting struct {
	root, tags, ldflags, gotestsum, missing string
}

func main() {
	var s setting
	flag.StringVar(&s.root, "root", ".", "the top `directory` of the checkout")
	flag.StringVar(&s.tags, "build-tags", "", "the tags of every build")
	flag.StringVar(&s.ldflags, "build-ldflags", "", "flags of the linker")
	flag.StringVar(&s.gotestsum, "gotestsum", "gotestsum", "its `program`")
	flag.StringVar(&s.missing, "missing", "", "the `packages` that could not be installed")
	flag.Parse()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- run(ctx, s, flag.Args()) }()
	select {
	case c := <-code:
		os.Exit(c)
	case got := <-ended:
		cancel()
		stopAll()
		fmt.Fprintln(os.Stderr, "\nended by a signal; the events so far are in bin/failed-tests")
		os.Exit(128 + int(got.(syscall.Signal)))
	}
}

func run(ctx context.Context, s setting, args []string) int {
	fail := func(code int, err error) int {
		fmt.Fprintf(os.Stderr, "test: %v\n", err)
		return code
	}
	packages, modules, err := s.list()
	if err != nil {
		return fail(1, err)
	}
	t, err := readTable(filepath.Join(s.root, "tests", "suites.yaml"))
	if err == nil {
		err = t.check(packages, modules)
	}
	if err != nil {
		return fail(1, fmt.Errorf("tests/suites.yaml: %w", err))
	}
	all := slices.Concat(packages[release], modules) // which are those of the gate, and more
	o, err := parse(args, all, holding(s.root, all))
	if err != nil {
		return fail(2, err)
	}
	if o.strict && s.missing != "" {
		return fail(1, fmt.Errorf("could not install:%s", s.missing))
	}
	began := time.Now()
	if at, err := strconv.ParseInt(os.Getenv("REAP_TEST_GATE_BEGAN"), 10, 64); err == nil { // of the gate, which does more before
		began = time.Unix(at, 0)
	}
	rows := t.rows(o.tier(), packages)
	complete := len(o.chosen) == 0
	if !complete {
		rows = o.rowsOf(append(rows, t.rows(release, packages)...)) // by its name a module is tested that the gate leaves out
		for _, p := range o.chosen {
			if !o.release && !slices.Contains(packages[gate], p) && !slices.Contains(modules, p) {
				return fail(2, fmt.Errorf("%s is tested with --release alone", p))
			}
		}
	}
	screen := newScreen(os.Stderr, began)
	r := &runner{
		options: o, root: s.root, failures: filepath.Join(s.root, "bin", "failed-tests"),
		tags: s.tags, ldflags: s.ldflags, gotestsum: s.gotestsum, screen: screen,
	}
	if o.release {
		r.tags += ",releasetest"
	}
	if err := r.prepare(ctx, rows); err != nil {
		return fail(1, err)
	}
	rows, smoked, err := smoke(rows, changedIn(s.root))
	if err != nil {
		return fail(1, err)
	}
	r.compile(ctx, rows)
	screen.say("testing")
	drawn := make(chan struct{})
	go screen.keep(drawn)
	r.lanes(ctx, rows)
	failed, err := summary.Failures(r.files)
	var flaky map[summary.Failure]bool
	if err == nil {
		flaky, err = r.repeat(ctx, t, rows, failed)
	}
	close(drawn)
	if ctx.Err() != nil {
		select {} // main ends the process
	}
	if err = errors.Join(err, errors.Join(r.errs...)); err != nil {
		return fail(1, err)
	}
	left := ""
	if complete && !o.release {
		left = t.left(packages)
		if len(smoked) > 0 {
			left += "; all but a smoke test of what has not changed: " + strings.Join(smoked, " ")
		}
	}
	screen.say("")
	code, err := summary.Write(os.Stdout, summary.Options{
		Strict: o.strict, Skips: filepath.Join(s.root, "tests", "skips"), Missing: s.missing, Complete: complete && len(o.flags) == 0,
		Size: o.size(), Logs: filepath.Join(r.failures, "logs"), Took: time.Since(began).Round(time.Second), Left: left, Flaky: flaky, Forgiven: forgiven,
	}, r.files)
	switch {
	case err != nil:
		return fail(1, err)
	case code != 0 || len(flaky) > 0:
		fmt.Fprintln(os.Stderr, "the events of all tests and the logs of the servers are in bin/failed-tests")
	default:
		_ = os.RemoveAll(r.failures) // there is nothing to look at
	}
	return code
}

// prepare makes the folder for events and logs, and the program, if tests run it.
func (r *runner) prepare(ctx context.Context, rows []row) error {
	if err := os.RemoveAll(r.failures); err != nil {
		return err
	}
	logs := filepath.Join(r.failures, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	if err := os.Setenv("REAP_TEST_LOGS", logs); err != nil { // servers log there
		return err
	}
	if !slices.ContainsFunc(rows, func(r row) bool { return r.Binary }) {
		return nil
	}
	build := exec.CommandContext(ctx, filepath.Join(r.root, "scripts", "build"))
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building bin/reap: %w", err)
	}
	return os.Setenv("REAP_BINARY", filepath.Join(r.root, "bin", "reap"))
}

// list returns the packages with tests, and the directories of the other modules with any.
func (s setting) list() (packages tested, modules []string, err error) {
	packages = tested{}
	for tier, tags := range map[string]string{gate: s.tags, release: s.tags + ",releasetest"} {
		list := exec.Command("go", "list", "-tags", tags, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", "./...")
		list.Dir = s.root
		out, err := output(list)
		if err != nil {
			return nil, nil, fmt.Errorf("listing the packages: %w", err)
		}
		for dir := range strings.FieldsSeq(out) {
			rel, err := filepath.Rel(s.root, dir)
			if err != nil {
				return nil, nil, err
			}
			packages[tier] = append(packages[tier], rel)
		}
	}
	files := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*/go.mod")
	files.Dir = s.root
	out, err := output(files)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the modules: %w", err)
	}
	for file := range strings.FieldsSeq(out) {
		dir := filepath.Dir(file)
		tests := exec.Command("git", "ls-files", "-co", "--exclude-standard", dir+"/*_test.go")
		tests.Dir = s.root
		if out, err = output(tests); err != nil {
			return nil, nil, fmt.Errorf("listing the tests of %s: %w", dir, err)
		}
		if out != "" {
			modules = append(modules, dir)
		}
	}
	return packages, modules, nil
}

func output(cmd *exec.Cmd) (string, error) {
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(says.String()))
	}
	return string(out), nil
}
