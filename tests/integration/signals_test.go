package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
)

// TestSignals ends a server by each signal that asks for it; each time the next start finds all in order.
func TestSignals(t *testing.T) {
	t.Parallel() // it mostly waits
	if signal.Ignored(syscall.SIGHUP) {
		// The tests run under nohup, which the server would take for its own.
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(heard) })
	}
	s := start(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if err := s.end(sig); err != nil {
			t.Error(err)
			s.kill()
		}
		s.restart(t)
	}
	s.mustWork(t)
	s.mustBeKilledBySecondSignal(t)
	s.restart(t)
	s.mustWork(t)
}

// mustBeKilledBySecondSignal asks the server to end while a request of it cannot, and again.
func (s *server) mustBeKilledBySecondSignal(t *testing.T) {
	t.Helper()
	c, err := rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	body, writer := io.Pipe() // nothing is ever written
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/namespaces/default/configmaps", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Expect", "100-continue")
	answered := make(chan error, 1)
	go func() {
		answer, err := c.Do(r)
		if err == nil {
			err = fmt.Errorf("answered with %s", answer.Status)
			_ = answer.Body.Close() // the answer is wrong anyhow
		}
		answered <- err
	}()
	select {
	case <-reading: // the server waits for the body
	case err := <-answered:
		t.Fatal(err)
	}
	before := len(s.logFrom(0))
	s.signal(t, syscall.SIGTERM)
	await(t, "the server to begin to end", func(context.Context) (bool, any) {
		return strings.Contains(string(s.logFrom(int64(before))), "reap is stopping"), "nothing in the log"
	})
	await(t, "the server's end", func(context.Context) (bool, any) {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		return !s.running(), "running"
	})
	if state := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != syscall.SIGTERM {
		t.Errorf("a second SIGTERM did not kill the server: %s", s.cmd.ProcessState)
	}
	_ = writer.CloseWithError(io.ErrUnexpectedEOF) // a pipe's end cannot fail
	t.Logf("the request ended: %v", <-answered)
}

// nohup starts the server with SIGHUP ignored.
func TestServerUnderNohupOutlivesItsTerminal(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newServer(t.TempDir())
	s.wrap = func(cmd *exec.Cmd) {
		path, err := filepath.EvalSymlinks(cmd.Path) // of /proc/self/exe, which would be the shell
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	s.start(t)
	s.signal(t, syscall.SIGHUP)
	s.mustWork(t)
	if err := s.end(syscall.SIGINT); err != nil {
		t.Error(err)
	}
}

// TestLogFileIsRotated copies and truncates the file that the log goes to, as logrotate's copytruncate does.
func TestLogFileIsRotated(t *testing.T) {
	t.Parallel() // it mostly waits
	s := start(t, "--log-level=debug", "--log-format=json")
	s.mustWork(t)
	if err := os.Truncate(s.log, 0); err != nil {
		t.Fatal(err)
	}
	s.mustWork(t)
	s.stop(t)
	lines := strings.Split(strings.TrimSuffix(string(s.logFrom(0)), "\n"), "\n")
	for _, l := range lines {
		if !strings.HasPrefix(l, "{") || !strings.HasSuffix(l, "}") {
			t.Fatalf("a line of the log is %q", l)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "reap is stopping") }) {
		t.Errorf("the last of %d lines is %s", len(lines), lines[len(lines)-1])
	}
}

// The server listens on the IPv6 loopback address, and on all addresses including IPv4.
func TestServerListensOnIPv6(t *testing.T) {
	t.Parallel() // it mostly waits
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--bind-address=::1")
	s.mustAnswerOn(t, "::1")
	s.stop(t)
	s.restart(t, append(s.args, "--bind-address=::")...) // the certificates that are there are for another address
	s.mustAnswerOn(t, "::1", "127.0.0.1")
}

// mustAnswerOn checks that the server works, and that clients reach it on these hosts.
func (s *server) mustAnswerOn(t *testing.T, hosts ...string) {
	t.Helper()
	s.mustWork(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.anonymous(t)
	for _, host := range hosts {
		if code := status(t, c, "https://"+net.JoinHostPort(host, port)+"/readyz"); code != 200 {
			t.Errorf("%s answers %d", host, code)
		}
	}
}
