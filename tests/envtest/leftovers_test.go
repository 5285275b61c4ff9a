package envtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a running program.
type process struct {
	id      int
	program string // without its folder
}

func (p process) String() string { return fmt.Sprintf("%s (process %d)", p.program, p.id) }

// runningFrom returns the processes whose programs were started from a folder.
func runningFrom(folder string) (found []process, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		program, _, _ := bytes.Cut(line, []byte{0})
		name, ok := strings.CutPrefix(string(program), folder+"/")
		if !ok {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		found = append(found, process{id, name})
	}
	return found, nil
}

// endsWithin bounds how long a program may take from SIGTERM to its end, also without its etcd.
const endsWithin = 30 * time.Second

// end ends a process that nobody waits for, as envtest would. Killing it is an error.
func (p process) end() error {
	if err := syscall.Kill(p.id, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending %s: %w", p, err)
	}
	for deadline := time.Now().Add(endsWithin); ; time.Sleep(20 * time.Millisecond) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.id)); err != nil || len(line) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s did not end within %s", p, endsWithin), syscall.Kill(p.id, syscall.SIGKILL))
		}
	}
}

// endLeft ends the processes that a suite has left running, and fails the test unless they are those that it is known to leave.
func endLeft(t *testing.T, folder string, known []string) {
	t.Helper()
	left, err := runningFrom(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range left {
		names = append(names, p.program)
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(names)
	if known = slices.Sorted(slices.Values(known)); !slices.Equal(names, known) {
		t.Errorf("it leaves %q running; %s says %q", names, listFile, known)
	}
}
