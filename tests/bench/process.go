package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// resident is the resident memory of a process, in bytes.
type resident struct {
	anon uint64 // its own
	file uint64 // pages of the binary and other files, which the machine can drop
}

// memoryOf reads the memory of a process.
func memoryOf(pid int) (resident, error) {
	fields, err := statusOf(fmt.Sprintf("/proc/%d/status", pid), "RssAnon", "RssFile")
	if err != nil {
		return resident{}, err
	}
	return resident{anon: fields[0] << 10, file: fields[1] << 10}, nil
}

// statusOf reads numbers from a file of lines "name: number", in the order of names.
func statusOf(file string, names ...string) ([]uint64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := make([]uint64, len(names))
	for i, name := range names {
		_, rest, found := bytes.Cut(raw, []byte(name+":"))
		words := bytes.Fields(rest)
		if !found || len(words) == 0 {
			return nil, fmt.Errorf("%s has no %s", file, name)
		}
		if values[i], err = strconv.ParseUint(string(words[0]), 10, 64); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// effort is what a process has used since its start.
type effort struct {
	cpu      time.Duration
	written  uint64 // bytes, to disk
	switches uint64 // voluntary context switches: how often a thread went to sleep
}

// hertz is the unit in which the kernel reports CPU time, on every architecture that Go runs on.
const hertz = 100

// cpuOf returns the CPU time that processes have taken.
func cpuOf(pids ...int) (total time.Duration, err error) {
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The name in parentheses may hold anything. utime and stime are the 14th and 15th field, the state the third.
		words := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(words) < 13 {
			return 0, errors.New("the kernel's account of a process is too short")
		}
		for _, w := range words[11:13] {
			ticks, err := strconv.ParseUint(w, 10, 64)
			if err != nil {
				return 0, err
			}
			total += time.Duration(ticks) * time.Second / hertz
		}
	}
	return total, nil
}

func effortOf(pid int) (e effort, err error) {
	if e.cpu, err = cpuOf(pid); err != nil {
		return e, err
	}
	io, err := statusOf(fmt.Sprintf("/proc/%d/io", pid), "write_bytes")
	if err != nil {
		return e, err
	}
	e.written = io[0]
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return e, err
	}
	for _, file := range threads {
		n, err := statusOf(file, "voluntary_ctxt_switches")
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return e, err
		}
		e.switches += n[0]
	}
	return e, nil
}

// during returns what a server uses in a span of time.
func (s *server) during(ctx context.Context, span time.Duration) (effort, error) {
	before, err := effortOf(s.cmd.Process.Pid)
	if err != nil {
		return effort{}, err
	}
	select {
	case <-ctx.Done():
		return effort{}, ctx.Err()
	case <-time.After(span):
	}
	after, err := effortOf(s.cmd.Process.Pid)
	return effort{after.cpu - before.cpu, after.written - before.written, after.switches - before.switches}, err
}

// calmFor is how long the memory of a process must not change for it to be at rest.
const calmFor = 25 * time.Second

// rest waits a bounded time for a server's memory to stop changing, and returns it.
func (s *server) rest(ctx context.Context) (resident, error) { return atRest(ctx, s.cmd.Process.Pid) }

// atRest waits a bounded time for the memory of a process to stop changing, and returns it.
func atRest(ctx context.Context, pid int) (resident, error) {
	const same = 1 << 20
	var m resident
	var since time.Time
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true, func(context.Context) (bool, error) {
		now, err := memoryOf(pid)
		if err != nil {
			return false, err
		}
		if since.IsZero() || max(now.anon, m.anon)-min(now.anon, m.anon) > same {
			m, since = now, time.Now()
		}
		return time.Since(since) >= calmFor, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		say("  the memory of process %d does not come to rest", pid)
		return memoryOf(pid)
	}
	return m, err
}
