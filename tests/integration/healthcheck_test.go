package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHealthcheckFollowsTheServer asks before, while and after a server is ready, and when it does not answer.
func TestHealthcheckFollowsTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	timeout := patience
	check := func(when string, ready bool, says string) {
		t.Helper()
		out, errs, code := s.run(t, "healthcheck", "--timeout="+timeout.String())
		if (code == 0) != ready || code > 1 || !strings.Contains(out+errs, says) || strings.Count(out+errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q", when, code, out, errs)
		}
	}
	const never = "has said that it is ready"
	check("before any start", false, never)
	s.start(t)
	check("ready", true, s.URL)
	s.signal(t, syscall.SIGSTOP)
	timeout = time.Second // in which nothing can come
	check("frozen", false, "no answer within 1s")
	timeout = patience
	s.signal(t, syscall.SIGCONT)
	check("thawed", true, s.URL)
	s.kill()
	check("killed", false, "connection refused")
	s.restart(t)
	check("ready again", true, s.URL)
	s.stop(t)
	check("stopped", false, never)
}

func (s *server) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
