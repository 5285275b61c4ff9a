// Package reaptest runs real reap servers for Go tests: Kubernetes API servers in which deletions
// cascade, namespaces end and workload controllers work. Each is a child process on a free port with a
// throw-away data directory, so that any number can run side by side, in one test binary or several.
//
//	func TestController(t *testing.T) {
//		server := reaptest.Start(t)
//		client := kubernetes.NewForConfigOrDie(server.Config())
//		…
//	}
//
// The binary is the one that [WithBinary] or $REAP_BINARY names, else reap on PATH. A server takes
// nothing from the machine that it runs on: neither configuration files nor REAP_… variables.
//
// On Linux a server ends with the test process however that ends, also if it is killed. Elsewhere it
// outlives a test process that neither runs its cleanups nor calls Stop.
package reaptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
)

// startWithin is ten times what a start takes on a slow machine.
const startWithin = 2 * time.Minute

// Start starts a server for one test and returns when it is ready. It is stopped when the test and its
// subtests have ended. The test fails at once if the server does not get ready, with the end of its log,
// and fails later if the server ends by itself or does not stop in order. If the test fails by itself, its output has
// what [Server.Explain] says.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s, err := Run(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.explain(t, 0)
	return s
}

// Run starts a server and returns when it is ready: for TestMain, and wherever there is no test to tie it
// to. ctx bounds the start alone. The caller calls [Server.Stop].
func Run(ctx context.Context, options ...Option) (*Server, error) {
	s, err := run(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reaptest: %w", err)
	}
	return s, nil
}

func run(ctx context.Context, options []Option) (_ *Server, err error) {
	o := settings{scheme: scheme.Scheme}
	for _, option := range options {
		option(&o)
	}
	binary, err := findBinary(o.binary)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: o.dir, scheme: o.scheme, stopWithin: stopWithin, resetWithin: resetWithin}
	if s.dir == "" {
		// Short, unlike a test's own directory: a socket's path is limited.
		if s.dir, err = os.MkdirTemp("", "reaptest-"); err != nil {
			return nil, fmt.Errorf("making a data directory: %w", err)
		}
		s.throwAway = true
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if s.process, err = launch(command(binary, s.dir, o)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", binary, err), s.clear())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("not ready within %s", startWithin))
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		s.process.kill()
		return nil, errors.Join(fmt.Errorf("starting %s server: %w%s", binary, err, s.process.log.end()), s.clear())
	}
	s.keepErr = s.keep(ctx)
	return s, nil
}

// command is `reap server`, alone with its directory. The caller's flags come last and so win.
func command(binary, dir string, o settings) (*exec.Cmd, *tail) {
	cmd := exec.Command(binary, append([]string{"server", "--config=", "--data-dir", dir, "--https-listen-port", "0"}, o.args...)...)
	// A variable that is meant for another server, a database's address above all, must not reach this one.
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool { return strings.HasPrefix(v, "REAP_") })
	cmd.SysProcAttr = boundToParent()
	log := &tail{next: o.log}
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, log
}
