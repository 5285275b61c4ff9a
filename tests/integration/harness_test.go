package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/tests/program"
)

const (
	startWithin = 45 * time.Second * slowness
	// patience bounds the time without progress in every wait for a condition: passing tests never get near it.
	patience = 2 * time.Minute * slowness
	// failWithin is how long a start that cannot succeed may take.
	failWithin = 30 * time.Second * slowness
	poll       = 25 * time.Millisecond
	logShown   = 16 << 10
)

// pauses says how long to wait after a look at a condition that took so long. It is short at first, as most conditions hold soon. Later
// it is a fifth of the time waited so far, and always a multiple of the look: that is work for the server, which is to make progress.
func pauses(took *time.Duration) wait.DelayFunc {
	next := wait.Backoff{Duration: poll, Factor: 1.2, Steps: 14, Cap: 300 * time.Millisecond}.DelayFunc()
	return func() time.Duration { return max(next(), min(4**took, 2*time.Second)) }
}

// stopWithin is what users are promised; the race detector gets more.
const stopWithin = 10 * time.Second * slowness

// server is `reap server` on one data directory: one process after the other. Its methods belong to one
// goroutine.
type server struct {
	top  string   // a directory of its own
	dir  string   // the data directory, below it
	args []string // of the command `reap server`
	env  []string
	user *syscall.Credential   // who it runs as; nil for whoever tests
	log  string                // the file with what the processes write
	wrap func(*exec.Cmd)       // changes how a process is started; may be nil
	exec func(*exec.Cmd) error // starts it, if not nil

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	ready
	clients
}

// ready is what the ready file says.
type ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	PID        int    `json:"pid"`
	Version    string `json:"version"`
}

// newServer prepares a server that keeps everything below top. Later flags win over earlier ones.
func newServer(top string, args ...string) *server {
	dir := filepath.Join(top, "data")
	return &server{
		top:  top,
		dir:  dir,
		args: append([]string{"--data-dir", dir, "--https-listen-port", "0"}, program.OnEngine(args)...),
		env:  []string{"HOME=" + top},
		log:  program.LogFile(top),
	}
}

// start starts a server on a data directory of its own and returns when it is ready. When the test
// ends, it is stopped, and must do so in order.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := newServer(t.TempDir(), args...)
	s.start(t)
	return s
}

// start starts the server's first process.
func (s *server) start(t *testing.T) {
	t.Helper()
	watchLog(t, s)
	t.Cleanup(func() {
		if s.running() {
			s.stop(t)
		}
		s.kill()
	})
	s.restart(t, s.args...)
}

// restart starts the next process on the same data directory, with other arguments if there are any.
func (s *server) restart(t *testing.T, args ...string) {
	t.Helper()
	if len(args) > 0 {
		s.args = args
	}
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

// stop asks the process to end, as systemd would, and checks how it does.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.terminate(); err != nil {
		s.kill()
		t.Fatal(err)
	}
}

// reap returns the program with an environment of its own.
func reap(env []string, args ...string) *exec.Cmd { return program.Command(env, args...) }

// called returns it under another name.
func called(name string, env []string, args ...string) *exec.Cmd {
	cmd := reap(env, args...)
	cmd.Args[0] = name
	return cmd
}

// launch starts a process and returns when it is ready.
func (s *server) launch() error {
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.awaitReady(); err != nil {
		return fmt.Errorf("starting reap server %s: %w", strings.Join(s.args, " "), err)
	}
	var err error
	s.clients, err = newClients(s.Kubeconfig)
	return err
}

// begin starts a process.
func (s *server) begin() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	// No file of this machine is read in place of a test's own.
	s.cmd = program.Server(s.env, append([]string{"server", "--config="}, s.args...)...)
	started, err := program.As(s.cmd, s.user)
	if err != nil {
		return err
	}
	defer started()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Dir = s.top
	if s.wrap != nil {
		s.wrap(s.cmd)
	}
	run := s.cmd.Start
	if s.exec != nil {
		run = func() error { return s.exec(s.cmd) }
	}
	if err := run(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func(cmd *exec.Cmd) {
		defer close(done)
		_ = cmd.Wait() // the state says all of it
	}(s.cmd)
	s.done = done
	return nil
}

func (s *server) readyFile() string { return filepath.Join(s.dir, "ready.json") }

func (s *server) awaitReady() error {
	err := wait.PollUntilContextTimeout(context.Background(), poll, startWithin, true, func(context.Context) (bool, error) {
		if !s.running() {
			return false, fmt.Errorf("it ended: %s", s.cmd.ProcessState)
		}
		raw, err := os.ReadFile(s.readyFile())
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(raw) == 0 { // a power cut has left that of another process so, until the new one removes it
			return false, nil
		}
		if err := json.Unmarshal(raw, &s.ready); err != nil {
			return false, fmt.Errorf("the ready file is %q: %w", raw, err)
		}
		// A killed process leaves its file behind.
		return s.PID == s.cmd.Process.Pid, nil
	})
	if err == nil && s.Kubeconfig != filepath.Join(s.dir, "admin.kubeconfig") {
		err = fmt.Errorf("the ready file names the kubeconfig %q", s.Kubeconfig)
	}
	return err
}

func (s *server) running() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// terminate ends the process as systemd would.
func (s *server) terminate() error { return s.end(syscall.SIGTERM) }

// end sends a signal and reports everything that is not as it should be about the end.
func (s *server) end(signal syscall.Signal) error {
	began := time.Now()
	if err := s.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s: %w (%v)", signal, err, s.cmd.ProcessState)
	}
	select {
	case <-s.done:
	case <-time.After(stopWithin):
		return fmt.Errorf("still running %s after: %s", stopWithin, signal)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("after: %s: %s, %s later", signal, s.cmd.ProcessState, time.Since(began))
	}
	if _, err := os.Stat(s.readyFile()); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the ready file outlives the server (%v)", err)
	}
	return nil
}

// kill ends the process without giving it a chance, if there is one.
func (s *server) kill() {
	if s.done == nil {
		return
	}
	_ = s.cmd.Process.Kill() // may have ended
	<-s.done
}

func (s *server) logFrom(offset int64) []byte {
	f, err := os.Open(s.log)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil
	}
	raw, _ := io.ReadAll(f) // what there is helps
	return raw
}

// logTail returns the end of the log, for people.
func (s *server) logTail(offset int64) []byte {
	raw := s.logFrom(offset)
	if len(raw) > logShown {
		raw = append([]byte("[…]"), raw[len(raw)-logShown:]...)
	}
	return raw
}

// watchLog looks at what the server logs during the test: it must not hold anything bad, and is printed
// if the test fails.
func watchLog(t *testing.T, s *server) {
	t.Helper()
	var from int64
	if info, err := os.Stat(s.log); err == nil {
		from = info.Size()
	}
	t.Cleanup(func() {
		if err := program.CheckLog(s.logFrom(from)); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of reap server %s:\n%s", strings.Join(s.args, " "), s.logTail(from))
		}
	})
}

// await waits until cond holds and fails the test if it never does. cond returns what it saw instead.
func await(t *testing.T, what string, cond func(context.Context) (ok bool, saw any)) {
	t.Helper()
	awaitWithin(t, patience, what, cond)
}

// awaitWithin is await for what takes its time: cond fails once it has seen the same for that long, or has seen
// other things for five times as long. A machine that does much else at once makes a test slow, not false.
func awaitWithin(t *testing.T, within time.Duration, what string, cond func(context.Context) (ok bool, saw any)) {
	t.Helper()
	var last string
	changed := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*within)
	defer cancel()
	var took time.Duration
	err := pauses(&took).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		began := time.Now()
		ok, saw := cond(ctx)
		took = time.Since(began)
		if now := fmt.Sprint(saw); ctx.Err() == nil && now != last {
			last, changed = now, time.Now()
		}
		if !ok && time.Since(changed) > within {
			return false, fmt.Errorf("nothing changed for %s", within)
		}
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}
