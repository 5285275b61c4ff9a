package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopWithin is how long the processes of tests have to end once they are told to.
const stopWithin = 1500 * time.Millisecond

// stopAll ends all processes that this one has started, and those that they have. They are found before the first one ends: a process whose
// parent has ended is not found below this one any more.
func stopAll() {
	pids := descendants(os.Getpid())
	signal := func(s unix.Signal) (left int) {
		for _, pid := range pids {
			if unix.Kill(pid, s) == nil {
				left++
			}
		}
		return left
	}
	signal(unix.SIGTERM)
	for end := time.Now().Add(stopWithin); time.Now().Before(end) && signal(0) > 0; {
		time.Sleep(20 * time.Millisecond)
	}
	pids = append(pids, descendants(os.Getpid())...) // begun meanwhile
	signal(unix.SIGKILL)
}

// descendants returns the processes below one that have not ended.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …", and a name may have anything in it
		rest := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(rest) < 2 || rest[0] == "Z" {
			continue
		}
		parent, _ := strconv.Atoi(rest[1])
		children[parent] = append(children[parent], pid)
	}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		next = append(next, children[next[0]]...)
		all = append(all, children[next[0]]...)
	}
	return all
}
