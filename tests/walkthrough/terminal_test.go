package walkthrough

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new terminal, a hundred columns wide.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil { // unlocks it
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// screen is what has been written to a terminal.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// TestFirstStartOnATerminal starts a server on a terminal and compares what it writes with the block that README.md shows.
func TestFirstStartOnATerminal(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "On a terminal a first start looks like this:\n\n```text\n")
	want, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("README.md does not show a first start")
	}
	s := newShell(t) // for its directory
	dir := filepath.Join(s.dir, "data")
	ours, theirs := openTerminal(t)
	cmd := exec.Command(binary(t), "server", "--data-dir", dir)
	cmd.Env = []string{"HOME=" + s.dir, "REAP_CONFIG=" + filepath.Join(s.dir, "config.yaml"), "REAP_HTTPS_LISTEN_PORT=0", "NO_COLOR=1"}
	cmd.Stdout, cmd.Stderr = theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the process has its own
	var seen screen
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			_, _ = seen.Write(buffer[:n]) // into memory
			if err != nil {
				return // the other end is closed
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // a server that never gets ready
	defer kill.Stop()
	ready, url := filepath.Join(dir, "ready.json"), "\n         url "
	for _, err := os.Stat(ready); err != nil || !strings.Contains(seen.String(), url); _, err = os.Stat(ready) {
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, seen.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	<-read
	_ = ours.Close() // read to its end
	start, rest, _ := strings.Cut(seen.String(), "reap is ready\n")
	fields, rest, _ := strings.Cut(rest, url) // the last one
	rest, _, _ = strings.Cut(rest, "\n")
	got := start + "reap is ready\n" + fields + url + rest + "\n"
	shown := records(want)
	// On a busy machine some part may be late and say so. tests/integration TestFirstStartIsQuiet checks that nothing
	// else comes each time.
	written := slices.DeleteFunc(records(strings.ReplaceAll(got, dir, "/home/you/reap")), func(r string) bool {
		return strings.Contains(r, " WARNING ") || strings.Contains(r, "collector is reading what exists")
	})
	if !slices.Equal(written, shown) {
		t.Errorf("a first start writes\n%s\n\nand README.md shows\n%s", got, want)
	}
}

// records are those of a log as a terminal shows it, without what differs between two starts. The collector and the
// controllers start side by side, so they are sorted.
func records(output string) (all []string) {
	for line := range strings.Lines(normal("", output)) {
		line = number.ReplaceAllString(strings.TrimSuffix(line, "\n"), "N")
		if strings.HasPrefix(line, " ") && len(all) > 0 { // a field of the record above
			all[len(all)-1] += line
		} else {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}
