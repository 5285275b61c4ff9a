package histories

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore"
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

func (p *process) start() error {
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), storeDir+"="+p.dir, storeEngine+"="+p.engine)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// kill ends the process as a power switch would, but for the disk.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // it was killed
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

// inProcess starts a store and returns what makes clients of it.
func inProcess(t *testing.T, engine string) func() *clientv3.Client {
	t.Helper()
	s, err := datastore.Start(t.Context(), options(shortDir(t), engine))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s.Client
}
