package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// testTimeout bounds the tests of one mutant. One that makes them hang until then is killed.
const testTimeout = 3 * time.Minute

// result is what became of a mutant.
type result struct {
	Killed bool
	By     string        // the test that failed
	Took   time.Duration // of building and testing
}

func (r result) line(m *mutant) string {
	if !r.Killed {
		return fmt.Sprintf("SURVIVED %-60s %5.1fs  %s", m.name, r.Took.Seconds(), m.place())
	}
	return fmt.Sprintf("killed   %-60s %5.1fs  %s", m.name, r.Took.Seconds(), r.By)
}

// runner builds and runs tests.
type runner struct {
	work     string // a folder for what is built
	tags     string
	binaries map[string]string // by package
}

// withoutMutants checks that the tests pass as the code is: a test that fails anyhow would kill everything.
func (r *runner) withoutMutants(ctx context.Context, all []*mutant) error {
	var needed []tests // those that are named make one entry for each package
	named := func(t tests) bool { return t.run != "" && t.run[0] != '!' }
	for _, m := range all {
		for _, t := range m.tests {
			i := slices.IndexFunc(needed, func(n tests) bool { return n == t || n.pkg == t.pkg && named(n) && named(t) })
			if i < 0 {
				needed = append(needed, t)
				continue
			}
			for _, name := range t.names() {
				if !slices.Contains(needed[i].names(), name) {
					needed[i].run += "|" + name
				}
			}
		}
	}
	for _, t := range needed {
		began := time.Now()
		by, err := r.test(ctx, "", t, 10*testTimeout)
		if err != nil {
			return err
		}
		if by != "" {
			return fmt.Errorf("%s fails without any mutant: %s", t.pkg, by)
		}
		fmt.Printf("passed   %-60s %5.1fs  without any mutant\n", t.pkg, time.Since(began).Seconds())
	}
	return nil
}

// build writes the overlay and builds the tests of every package that is needed, each once.
func (r *runner) build(ctx context.Context, all []*mutant) error {
	overlay, err := writeOverlay(r.work, all)
	if err != nil {
		return err
	}
	r.binaries = map[string]string{}
	for _, m := range all {
		for _, t := range m.tests {
			if r.binaries[t.pkg] != "" {
				continue
			}
			began := time.Now()
			binary := filepath.Join(r.work, strconv.Itoa(len(r.binaries))+".test")
			// As scripts/build does, whose compiled packages can be used again then.
			build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", "-tags", r.tags, "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, t.pkg)
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("building the tests of %s: %w\n%s", t.pkg, err, out)
			}
			r.binaries[t.pkg] = binary
			fmt.Printf("built    %-60s %5.1fs\n", t.pkg, time.Since(began).Seconds())
		}
	}
	return nil
}

// try runs the tests that should notice a mutant, until one does.
func (r *runner) try(ctx context.Context, m *mutant) (got result, err error) {
	began := time.Now()
	for _, t := range m.tests {
		got.By, err = r.test(ctx, m.name, t, testTimeout)
		got.Took, got.Killed = time.Since(began), got.By != ""
		if err != nil || got.Killed {
			return got, err
		}
	}
	return got, nil
}

// test runs tests with a mutant at work, or with none, and returns which failed; empty if none did.
func (r *runner) test(ctx context.Context, mutant string, t tests, timeout time.Duration) (failed string, err error) {
	run := exec.CommandContext(ctx, r.binaries[t.pkg], append(t.flags(), "-test.failfast", "-test.timeout="+timeout.String())...)
	run.Dir = t.pkg
	run.Env = append(os.Environ(), chosenVariable+"="+mutant)
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("%s has no test %s", t.pkg, t.run)
	case err == nil:
		return "", nil
	case !errors.As(err, &exit) || ctx.Err() != nil:
		return "", fmt.Errorf("running the tests of %s: %w", t.pkg, err)
	}
	if failed = whatFailed(out, t); failed == "" {
		return "", fmt.Errorf("running the tests of %s: %w, though no test has failed:\n%s", t.pkg, err, out[max(0, len(out)-4<<10):])
	}
	return failed, nil
}

var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	hangLine = regexp.MustCompile(`(?m)^panic: test timed out`)
	diedLine = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)`)
)

// whatFailed names the test that failed; it is empty if none did: if the kernel has killed the tests for want of memory, say.
func whatFailed(out []byte, t tests) string {
	in := strings.TrimPrefix(t.pkg, "./") + " "
	hung := hangLine.Match(out)
	if f := failLine.FindSubmatch(out); f != nil && !hung {
		return in + string(f[1])
	}
	if hung {
		return in + "hung"
	}
	if died := diedLine.Find(out); died != nil {
		return in + string(died)
	}
	return ""
}
