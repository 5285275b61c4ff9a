package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	ours = open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil { // unlocks it
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return ours, open(fmt.Sprintf("/dev/pts/%d", n))
}

// A running program is reap, with a standard input and an environment of its own.
type running struct {
	cmd            *exec.Cmd
	stdout, stderr written
}

// written is what a program has written so far.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// prepare returns a program that has not been started.
func prepare(t *testing.T, args ...string) *running {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It ends by itself unless a test fails.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r := &running{cmd: exec.CommandContext(ctx, program, args...)}
	r.cmd.Args[0] = "reap"
	r.cmd.Env = []string{asProgram + "=1", "HOME=" + t.TempDir(), "REAP_CONFIG=", "PATH=" + t.TempDir()}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	return r
}

func start(t *testing.T, stdin *os.File, args ...string) *running {
	t.Helper()
	r := prepare(t, args...)
	r.cmd.Stdin = stdin
	r.begin(t)
	return r
}

func (r *running) begin(t *testing.T) {
	t.Helper()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// interrupted sends Ctrl-C's signal and returns how the program ends.
func (r *running) interrupted(t *testing.T) result {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	return r.ended(t)
}

func (r *running) ended(t *testing.T) result {
	t.Helper()
	if err := r.cmd.Wait(); err != nil && r.cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()}
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestInterruptEndsRestoreFromStandardInput(t *testing.T) {
	var whole bytes.Buffer
	if _, err := snapshot.Write(t.Context(), &whole, snapshot.Contents{Source: largeStore{}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	slow, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	r := start(t, slow, "snapshot", "restore", "-", "--data-dir", dir)
	if err := slow.Close(); err != nil { // so that writing ends if the program does
		t.Fatal(err)
	}
	// More than what waits in between is taken only by a restore that reads.
	if _, err := writer.Write(whole.Bytes()[:whole.Len()-1]); err != nil {
		t.Fatalf("%v: %+v", err, r.ended(t))
	}
	if got := r.interrupted(t); got.code != exitInterrupt || !strings.Contains(got.stderr, "interrupt") && !strings.Contains(got.stderr, "cancel") {
		t.Errorf("it ends with %+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".restoring-*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %q (%v)", left, err)
	}
}

// largeStore holds a megabyte that cannot be compressed.
type largeStore struct{}

func (largeStore) Read(_ context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	const keys = 100
	if err := begin(dump.Head{Revision: keys, Keys: keys}); err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{})
	for i := range keys {
		value := make([]byte, 10<<10)
		_, _ = random.Read(value) // never fails
		if err := each(dump.Record{Key: fmt.Appendf(nil, "/registry/configmaps/ns/%03d", i), Value: value, CreateRevision: int64(1 + i), ModRevision: int64(1 + i), Version: 1}); err != nil {
			return err
		}
	}
	return nil
}

func TestRestoreTakesNoTypedSnapshot(t *testing.T) {
	_, theirs := openTerminal(t)
	if got := start(t, theirs, "snapshot", "restore", "-", "--data-dir", t.TempDir()).ended(t); got.code != exitUsage || !strings.Contains(got.stderr, "cannot be typed") {
		t.Errorf("it ends with %+v", got)
	}
}

// TestInterruptEndsQuestion: whoever presses Ctrl-C at the question has removed nothing.
func TestInterruptEndsQuestion(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"bin/reap": "#!/bin/sh\n", "data/db": "",
		"bin/reap-uninstall.sh": "init=none\nunit=/x\nrc_script=/x\nenv_file=/x\ndata_dir=/data\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, theirs := openTerminal(t)
	r := start(t, theirs, "service", "uninstall", "--root", root, "--bin-dir", "/bin")
	await(t, "the question is asked", func() bool { return strings.Contains(r.stderr.String(), "[y/N]") })
	if got := r.interrupted(t); got.code != exitInterrupt || !strings.Contains(got.stderr, "nothing was removed") {
		t.Errorf("it ends with %+v", got)
	}
	if _, err := os.Stat(filepath.Join(root, "bin/reap")); err != nil {
		t.Error(err)
	}
}
