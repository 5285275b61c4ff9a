//go:build releasetest

package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// native returns the architecture of this machine.
func native(t *testing.T) architecture {
	t.Helper()
	for _, a := range architectures {
		if a.goarch == runtime.GOARCH {
			return a
		}
	}
	t.Skipf("there is no release for %s", runtime.GOARCH)
	return architecture{}
}

// server is a reap server as a child.
type server struct {
	cmd      *exec.Cmd
	ended    chan struct{}
	log      string
	client   kubernetes.Interface
	patience time.Duration // for each thing that is waited for
}

// start runs `reap server`, by way of a command that takes it as its arguments, and returns when it is ready. The
// test's end stops it, in order.
func start(t *testing.T, patience time.Duration, command ...string) *server {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "data")
	s := &server{ended: make(chan struct{}), log: filepath.Join(top, "log"), patience: patience}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	command = append(command, "server", "--config=", "--data-dir", dir, "--https-listen-port", "0")
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	began := time.Now()
	if err := errors.Join(s.cmd.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // the state says all of it
	}()
	t.Cleanup(func() { s.stop(t) })

	var ready struct{ Kubeconfig string }
	s.await(t, "the server to be ready", func(context.Context) (bool, any) {
		raw, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		if err != nil {
			return false, err
		}
		err = json.Unmarshal(raw, &ready)
		return err == nil, err
	})
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Timeout = -1, patience
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until cond holds, and fails the test with what cond saw instead if it never does.
func (s *server) await(t *testing.T, what string, cond func(context.Context) (ok bool, saw any)) {
	t.Helper()
	var saw any
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, s.patience, true, func(ctx context.Context) (ok bool, err error) {
		select {
		case <-s.ended:
			return false, fmt.Errorf("the server has ended: %s", s.cmd.ProcessState)
		default:
		}
		ok, saw = cond(ctx)
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last seen: %v\n%s", what, err, saw, s.tail())
	}
}

// tail returns the end of the log.
func (s *server) tail() string {
	raw, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-8<<10):])
}

// stop asks the server to end, and it must do so by itself, without an error.
func (s *server) stop(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
		t.Errorf("the server ended before it was asked to: %s\n%s", s.cmd.ProcessState, s.tail())
		return
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case <-s.ended:
		if !s.cmd.ProcessState.Success() {
			t.Errorf("the server ended with %s\n%s", s.cmd.ProcessState, s.tail())
		}
	case <-time.After(s.patience):
		t.Errorf("the server did not end within %s\n%s", s.patience, s.tail())
		_ = s.cmd.Process.Kill() // it may end after all
		<-s.ended
	}
}

// cascade makes an owner with n dependents, and something that nobody owns, deletes the owner, and waits for the
// dependents to go, and for nothing else.
func (s *server) cascade(t *testing.T, n int) {
	t.Helper()
	maps := s.client.CoreV1().ConfigMaps("default")
	own := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners, Labels: map[string]string{"test": "cascade"}},
			Data:       map[string]string{"some": strings.Repeat("data ", 20)},
		}
	}
	owner, err := maps.Create(t.Context(), own("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating the owner: %v\n%s", err, s.tail())
	}
	if _, err := maps.Create(t.Context(), own("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
	creating, ctx := errgroup.WithContext(t.Context())
	creating.SetLimit(16)
	for i := range n {
		creating.Go(func() error {
			_, err := maps.Create(ctx, own(fmt.Sprintf("dependent-%d", i), reference), metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		t.Fatalf("creating the dependents: %v\n%s", err, s.tail())
	}
	began := time.Now()
	if err := maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, fmt.Sprintf("%d dependents to go", n), func(ctx context.Context) (bool, any) {
		left, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "test=cascade", Limit: 10})
		if err != nil {
			return false, err
		}
		if len(left.Items) != 1 {
			return false, fmt.Sprintf("%d and %v", len(left.Items), left.RemainingItemCount)
		}
		return left.Items[0].Name == "kept", left.Items[0].Name
	})
	t.Logf("%d dependents gone after %s", n, time.Since(began).Round(time.Millisecond))
}

// peak follows the most memory of its own that a process holds, until the function it returns is called.
func peak(t *testing.T, pid int) func() int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var most atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// It ends with the context or the process.
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			now, err := rssAnon(pid)
			most.Store(max(most.Load(), now))
			return false, err
		})
	}()
	return func() int64 {
		cancel()
		<-ended
		return most.Load()
	}
}

// rssAnon is in bytes.
func rssAnon(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kb int64
			_, err := fmt.Sscan(value, &kb)
			return kb << 10, err
		}
	}
	return 0, errors.New("the process has no RssAnon")
}
