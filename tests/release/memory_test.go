//go:build releasetest

package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// small is the memory of the smallest device that reap is for.
	small = 512 << 20
	wide  = 10_000
)

// TestSmallMachine has the kernel hold the server to what a small device has: a large cascade has to end well,
// and so has the server.
func TestSmallMachine(t *testing.T) {
	binary := native(t).binary()
	g, err := newGroup(small)
	command := []string{binary}
	if err == nil {
		t.Cleanup(func() { g.remove(t) })
		// The shell goes into the group, and becomes the server.
		command = []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.dir, binary}
	}
	s := start(t, 5*time.Minute, command...)
	most := peak(t, s.cmd.Process.Pid)
	s.cascade(t, wide)
	t.Logf("at the most %d MiB of anonymous memory", most()>>20)
	if err != nil {
		t.Skipf("without a limit, since there is no memory cgroup here: %v", err)
	}
	if inside := g.read(t, "cgroup.procs"); strings.TrimSpace(inside) != strconv.Itoa(s.cmd.Process.Pid) {
		t.Errorf("the group holds %q, the server is %d", inside, s.cmd.Process.Pid)
	}
	killed, most2 := g.killed(t), g.peak(t)
	if killed != 0 {
		t.Errorf("the kernel has killed %d times", killed)
	}
	t.Logf("at the most %d MiB with the files that are cached, of %d", most2>>20, small>>20)
}

// group is a memory cgroup.
type group struct {
	dir string
	v2  bool
}

// newGroup makes a group below the one that the test is in.
func newGroup(limit int64) (*group, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &group{}
	parent := ""
	for line := range strings.Lines(string(raw)) {
		// hierarchy:controllers:path, with no controllers for version 2
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(part) == 3 && part[1] == "memory":
			parent, g.v2 = filepath.Join("/sys/fs/cgroup/memory", part[2]), false
		case len(part) == 3 && part[0] == "0" && parent == "":
			parent, g.v2 = filepath.Join("/sys/fs/cgroup", part[2]), true
		}
	}
	if parent == "" {
		return nil, errors.New("the process is in no cgroup")
	}
	g.dir = filepath.Join(parent, fmt.Sprintf("reap-test-%d", os.Getpid()))
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	if err := g.limit(limit); err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	return g, nil
}

// limit sets the limit, without swap, and reads it back.
func (g *group) limit(bytes int64) error {
	set, swap, off := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", strconv.FormatInt(bytes, 10)
	if g.v2 {
		set, swap, off = "memory.max", "memory.swap.max", "0"
	}
	want := strconv.FormatInt(bytes, 10)
	if err := os.WriteFile(filepath.Join(g.dir, set), []byte(want), 0); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(g.dir, set))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(got)) != want {
		return fmt.Errorf("the limit is %s", got)
	}
	// A kernel that does not account for swap has no such file.
	if err := os.WriteFile(filepath.Join(g.dir, swap), []byte(off), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (g *group) read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// killed returns how often the kernel has killed for want of memory.
func (g *group) killed(t *testing.T) int {
	t.Helper()
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	for line := range strings.Lines(g.read(t, name)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "oom_kill" {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no oom_kill", name)
	return 0
}

func (g *group) peak(t *testing.T) int64 {
	t.Helper()
	name := "memory.max_usage_in_bytes"
	if g.v2 {
		name = "memory.peak"
	}
	n, err := strconv.ParseInt(strings.TrimSpace(g.read(t, name)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (g *group) remove(t *testing.T) {
	t.Helper()
	if err := os.Remove(g.dir); err != nil {
		t.Errorf("removing the test's cgroup: %v", err)
	}
}
