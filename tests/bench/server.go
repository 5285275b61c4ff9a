package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// patience bounds every wait for a condition.
	patience = 10 * time.Minute
	// withoutCollector has a server leave the work to others.
	withoutCollector = "--disable=gc"
)

// server is a reap server as a child.
type server struct {
	dir        string // its data directory
	log        string
	cmd        *exec.Cmd
	done       chan struct{} // closed when it has ended
	began      time.Time     // when its process was started
	kubeconfig string
	config     *rest.Config
	objects    dynamic.Interface
	meta       metadata.Interface
}

// newDir returns a data directory that does not exist yet.
func (b *bench) newDir() (string, error) {
	top, err := os.MkdirTemp(b.dir, "server-")
	return filepath.Join(top, "data"), err
}

// serve starts a server on a data directory and returns when it is ready.
func (b *bench) serve(ctx context.Context, dir string, args ...string) (*server, error) {
	s, err := b.launch(dir, args...)
	if err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		_ = s.cmd.Process.Kill() // it is of no use, and the error is of more
		<-s.done
		return nil, err
	}
	return s, nil
}

// launch starts a server's process.
func (b *bench) launch(dir string, args ...string) (*server, error) {
	s := &server{dir: dir, log: dir + ".log", done: make(chan struct{})}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	if b.datastore != "" {
		args = append([]string{"--datastore-endpoint", b.datastore}, args...)
	}
	if b.workers > 0 {
		args = append([]string{fmt.Sprintf("--gc-workers=%d", b.workers)}, args...)
	}
	s.cmd = exec.Command(b.reap, append([]string{"server", "--config=", "--data-dir", dir, "--https-listen-port", "0"}, args...)...)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir)}
	// Signals to the benchmark's group are not for it: it is stopped in order. If the benchmark is killed, so is it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.began = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // the state says all of it
	}()
	return s, nil
}

// connect waits until a server is ready and makes clients for it.
func (s *server) connect(ctx context.Context) error {
	var ready struct {
		Kubeconfig string `json:"kubeconfig"`
		PID        int    `json:"pid"`
	}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, fmt.Errorf("it ended: %s", s.cmd.ProcessState)
		default:
		}
		raw, err := os.ReadFile(filepath.Join(s.dir, "ready.json"))
		return err == nil && json.Unmarshal(raw, &ready) == nil && ready.PID == s.cmd.Process.Pid, nil
	})
	if err != nil {
		return fmt.Errorf("starting a server: %w\n%s", err, s.logTail())
	}
	s.kubeconfig = ready.Kubeconfig
	if s.config, err = clientConfig(ready.Kubeconfig); err != nil {
		return err
	}
	if s.objects, err = dynamic.NewForConfig(s.config); err != nil {
		return err
	}
	s.meta, err = metadata.NewForConfig(metadata.ConfigFor(s.config))
	return err
}

// clientConfig returns a configuration without limits.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// stop ends a server in order.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping a server: %w (%v)", err, s.cmd.ProcessState)
	}
	late := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() }) // the state will say so
	defer late.Stop()
	<-s.done
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("stopping a server: %s\n%s", s.cmd.ProcessState, s.logTail())
	}
	return nil
}

func (s *server) logTail() []byte {
	raw, _ := os.ReadFile(s.log) // what there is helps
	return bytes.TrimSpace(raw[max(0, len(raw)-4<<10):])
}
