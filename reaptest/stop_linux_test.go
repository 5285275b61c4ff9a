package reaptest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func signal(t *testing.T, s *Server, sig os.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func mustFailToStop(t *testing.T, s *Server, want ...string) {
	t.Helper()
	err := s.Stop()
	for _, want := range append(want, "reap is ready") {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in what Stop returned: %v", want, err)
		}
	}
	select {
	case <-s.process.ended:
	default:
		t.Error("the process still runs")
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the data outlives the server (%v)", err)
	}
}

func TestServerThatDoesNotStopIsKilled(t *testing.T) {
	s := runServer(t)
	s.stopWithin = 50 * time.Millisecond
	signal(t, s, syscall.SIGSTOP)
	mustFailToStop(t, s, "still running 50ms after SIGTERM", "killed")
}

func TestServerThatEndedByItselfIsAnError(t *testing.T) {
	s := runServer(t)
	signal(t, s, syscall.SIGKILL)
	<-s.process.ended
	mustFailToStop(t, s, "ended by itself", "signal: killed")
}

// A real server has no such end.
func TestExitCodeAfterStopIsAnError(t *testing.T) {
	script := filepath.Join(t.TempDir(), "reap")
	err := os.WriteFile(script, []byte(`#!/bin/sh
trap 'exit 3' TERM
dir=$4
echo '{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}' >"$dir/config"
echo "reap is ready"
echo "{\"pid\":$$,\"kubeconfig\":\"$dir/config\"}" >"$dir/ready.json"
while :; do sleep 0.05; done
`), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), WithBinary(script))
	if err != nil {
		t.Fatal(err)
	}
	mustFailToStop(t, s, "exit status 3")
}
