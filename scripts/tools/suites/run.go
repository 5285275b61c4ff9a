package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// runner starts the rows.
type runner struct {
	options
	root, failures string // the top of the checkout, and where events and logs are kept
	tags, ldflags  string
	gotestsum      string
	screen         *screen

	mu    sync.Mutex
	files []string // with events, in the order in which their rows began
	errs  []error
}

// width is how many packages are tested at once: linking Kubernetes takes gigabytes for each, and servers under test share the cores.
func width() int { return min(runtime.NumCPU(), 4) }

// lanes runs the rows, lanes at once, and returns when all have ended.
func (r *runner) lanes(ctx context.Context, rows []row) {
	ended := map[string]chan struct{}{}
	var names []string
	for _, row := range rows {
		if ended[row.Lane] == nil {
			ended[row.Lane] = make(chan struct{})
			names = append(names, row.Lane)
		}
	}
	var all sync.WaitGroup
	for _, lane := range names {
		all.Go(func() {
			defer close(ended[lane])
			for _, row := range rows {
				if row.Lane != lane {
					continue
				}
				if first := ended[row.After]; first != nil {
					<-first
				}
				if ctx.Err() == nil {
					r.row(ctx, row)
				}
			}
		})
	}
	all.Wait()
}

// row runs one row to its end.
func (r *runner) row(ctx context.Context, row row) {
	file := filepath.Join(r.failures, "events-"+row.Name+".json")
	r.mu.Lock()
	r.files = append(r.files, file)
	r.mu.Unlock()
	if err := r.test(ctx, row, file, r.flags...); err != nil {
		r.mu.Lock()
		r.errs = append(r.errs, fmt.Errorf("%s: %w", row.Name, err))
		r.mu.Unlock()
	}
}

// test runs go test for a row and writes its events. A test that fails is no error; the events tell.
func (r *runner) test(ctx context.Context, row row, file string, flags ...string) error {
	cmd := exec.Command(r.gotestsum, slices.Concat(
		[]string{"--format", "none", "--no-color", "--hide-summary=skipped,failed,output", "--jsonfile", file, "--"}, r.arguments(row), flags)...)
	cmd.Dir = filepath.Join(r.root, row.Module)
	cmd.Env = r.environment(row)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	cmd.Stderr = r.screen.above() // its standard output says what follow has shown
	cmd.WaitDelay = stopWithin
	following, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- follow(following, row, file, r.screen) }()
	err := cmd.Run()
	stop()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	return errors.Join(err, <-ended)
}

// arguments are go test's.
func (r *runner) arguments(row row) []string {
	timeout := "30m"
	if r.release {
		timeout = "2h"
	}
	args := []string{"-vet=off", "-timeout", timeout, "-tags", r.tags}
	if !row.Cached {
		args = append(args, "-count=1")
	}
	if row.Short || r.short {
		args = append(args, "-short")
	}
	if row.Race {
		args = append(args, "-race")
	}
	if row.Run != "" {
		args = append(args, "-run", row.Run)
	}
	if row.Skip != "" {
		args = append(args, "-skip", row.Skip)
	}
	if row.Module != "" {
		return append(args, "./...")
	}
	parallel := row.Parallel
	if parallel == 0 {
		parallel = width()
	}
	args = append(args, "-ldflags", r.ldflags, "-p", strconv.Itoa(parallel))
	for _, p := range row.Packages {
		args = append(args, "./"+p)
	}
	return args
}

func (r *runner) environment(row row) []string {
	env := os.Environ()
	set := func(name, value string) {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	size := row.Size
	if size == "" {
		size = r.size()
	}
	set("REAP_TEST_SIZE", size)
	set("REAP_TEST_PART", row.Part)
	if row.Engine != "" {
		set("REAP_TEST_ENGINE", row.Engine)
	}
	// Races in others' code that the detector passes over; the file says why.
	set("GORACE", "suppressions="+filepath.Join(r.root, "tests", "race.suppressions"))
	return env
}

// compile compiles what is tested with the race detector before the first test: the servers of tests would take a minute to start beside
// so many compilers. A package that does not compile fails with its row.
func (r *runner) compile(ctx context.Context, rows []row) {
	args := []string{"list", "-race", "-export", "-test", "-deps", "-tags", r.tags}
	before := len(args)
	for _, row := range rows {
		if row.Race && row.Module == "" {
			for _, p := range row.Packages {
				args = append(args, "./"+p)
			}
		}
	}
	if len(args) == before {
		return
	}
	r.screen.say("compiling with the race detector; with nothing compiled yet Kubernetes' packages are compiled once more, which takes five minutes or more")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	_ = cmd.Run()
}
