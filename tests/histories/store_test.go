package histories

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/tests/program"
	"github.com/reap-dev/reap/tests/size"
)

// What is in the environment of a process that is to run a store until it is killed.
const (
	storeDir    = "REAP_TEST_STORE_DIR"
	storeEngine = "REAP_TEST_STORE_ENGINE"
)

// TestMain runs a store if it is asked to.
func TestMain(m *testing.M) {
	if dir := os.Getenv(storeDir); dir != "" {
		if _, err := datastore.Start(context.Background(), options(dir, os.Getenv(storeEngine))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

func options(dir, engine string) datastore.Options {
	return datastore.Options{Dir: dir, Endpoint: engine, Synchronous: "full", MinHistory: 50, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute}
}

// process is a store in a process of its own, and the socket that it listens on.
type process struct {
	dir, engine string
	cmd         *exec.Cmd
	output      bytes.Buffer
}

// started starts a store in a process, which ends with the test.
func started(t *testing.T, engine string) *process {
	t.Helper()
	p := &process{dir: shortDir(t), engine: engine}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the store said:\n%s", p.output.Bytes())
		}
	})
	return p
}

// mustServe returns when the store answers.
func (p *process) mustServe(t *testing.T) {
	t.Helper()
	c, err := dialing(p.endpoint())()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it has only read
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := first(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// killsNowAndThen kills the process a few times and starts it again.
func (p *process) killsNowAndThen(ctx context.Context, r *rand.Rand) error {
	for range size.Of(2, 3, 10) {
		if !wait(ctx, time.Duration(300+r.IntN(700))*time.Millisecond) {
			return nil
		}
		if err := p.kill(); err != nil {
			return err
		}
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) start() error {
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), storeDir+"="+p.dir, storeEngine+"="+p.engine)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// kill ends the process as a power switch would, but for the disk. It returns an error if the process had ended by itself,
// or has said what it never should.
func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // if it has ended, its state says so
	_ = p.cmd.Wait()         // the state says all of it
	if !wasKilled(p.cmd.ProcessState) {
		return fmt.Errorf("the store has ended by itself: %s", p.cmd.ProcessState)
	}
	return program.CheckLog(p.output.Bytes())
}

func wasKilled(ended *os.ProcessState) bool {
	status := ended.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// TestStoresThatEndByThemselvesAreNoticed by the tests that kill stores.
func TestStoresThatEndByThemselvesAreNoticed(t *testing.T) {
	for script, want := range map[string]bool{"kill -KILL $$": true, "kill -ABRT $$": false, "exit 0": false, "exit 66": false} {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run() // the state says all of it
		if got := wasKilled(cmd.ProcessState); got != want {
			t.Errorf("%s: was killed: %v", script, got)
		}
	}
}

func (p *process) endpoint() string {
	name := "kine.sock"
	if p.engine == datastore.Etcd {
		name = "etcd.sock"
	}
	return "unix://" + filepath.Join(p.dir, name)
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "histories-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// inProcess starts a store, which ends with the test.
func inProcess(t *testing.T, engine string) *datastore.Store {
	t.Helper()
	s, err := datastore.Start(t.Context(), options(shortDir(t), engine))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
