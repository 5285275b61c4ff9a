package walkthrough

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait: passing tests never get near it.
const patience = 2 * time.Minute

// A shell runs the commands of one page, one after another, in a directory of its own.
type shell struct {
	dir   string
	in    io.Writer
	codes chan string
	n     int
}

// newShell starts bash, with an environment of its own. It ends with the test, with all that it has started.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	// Not t.TempDir: a socket's name, which is below it, is limited to a hundred bytes.
	dir, err := os.MkdirTemp("", "walk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &shell{dir: dir, codes: make(chan string)}
	s.write(t, "config.yaml", "") // in place of this machine's own
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH"), "HOME=" + dir, "USER=you", "LC_ALL=C.UTF-8",
		"REAP_CONFIG=" + filepath.Join(dir, "config.yaml"), "REAP_HTTPS_LISTEN_PORT=0",
	}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// If the tests are killed, its input ends, and so does it, with the server that it has started.
	if _, err := io.WriteString(in, "trap 'kill $(jobs -p) 2> /dev/null' EXIT\n"); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.codes <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group goes with it
		go func() {
			for range s.codes { // what nobody waits for any more
			}
		}()
		<-read
		close(s.codes)
		_ = cmd.Wait() // killed
	})
	return s
}

// write writes a file below the shell's directory.
func (s *shell) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a command and returns what it prints to both streams, and its exit code.
func (s *shell) run(t *testing.T, command string) (output, code string) {
	t.Helper()
	s.n++
	script, out := fmt.Sprintf("command-%d", s.n), filepath.Join(s.dir, fmt.Sprintf("output-%d", s.n))
	s.write(t, script, command)
	// The shell itself runs it, so that variables, functions and jobs are there for the next.
	if _, err := fmt.Fprintf(s.in, ". ./%s > %s 2>&1 < /dev/null; echo $?\n", script, out); err != nil {
		t.Fatalf("running %q: %v", command, err)
	}
	select {
	case code = <-s.codes:
	case <-time.After(patience):
		raw, _ := os.ReadFile(out)
		t.Fatalf("%q has not ended after %s; so far it has printed\n%s", command, patience, raw)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), s.dir+"/tour", "/tmp/tour"), code
}

// must is run for a command that is on no page and has to succeed.
func (s *shell) must(t *testing.T, command string) {
	t.Helper()
	if output, code := s.run(t, command); code != "0" {
		t.Fatalf("%s ends with %s:\n%s", command, code, output)
	}
}
