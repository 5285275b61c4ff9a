// Package integration tests the program as its users meet it: as a process with flags, signals, files
// and an API. The test binary runs itself as reap, so what is tested is what was compiled, with the race
// detector where the tests have it.
//
// Most tests share one server and keep to namespaces of their own. They run one after the other: some
// compare everything that exists before and after, and a server has the machine's cores to itself. Those
// that mostly wait, on servers of their own, run side by side after all others.
package integration

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/pkg/cli"
)

// asProgram makes the test binary run as reap.
const asProgram = "REAP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		// As main.go has it.
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		context.AfterFunc(ctx, stop)
		os.Exit(cli.Run(ctx, os.Args, os.Stdout, os.Stderr))
	}
	code := m.Run()
	if err := endCommon(); err != nil {
		fmt.Fprintln(os.Stderr, "the server that the tests share:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// common is the server of all tests that need no other. It outlives them.
var common struct {
	once sync.Once
	top  string
	s    *server
	err  error
}

// shared returns the server that tests share, with clients. A test that uses it makes its own
// namespaces, waits for everything that it has set going, and leaves the server running.
func shared(t *testing.T) *server {
	t.Helper()
	common.once.Do(func() {
		if common.top, common.err = os.MkdirTemp("", "reap-integration-"); common.err != nil {
			return
		}
		common.s = newServer(common.top)
		common.err = common.s.launch()
	})
	if common.err != nil {
		t.Fatalf("starting the server that the tests share: %v", common.err)
	}
	watchLog(t, common.s)
	return common.s
}

func endCommon() error {
	if common.s == nil {
		return nil
	}
	if common.err != nil { // it never got ready
		common.s.kill()
		return nil // each test that wanted it has said so
	}
	err := common.s.terminate()
	if err == nil {
		err = checkLog(common.s.logFrom(0))
	}
	if err != nil {
		common.s.kill()
		return fmt.Errorf("%w\n%s", err, common.s.logTail(0))
	}
	return os.RemoveAll(common.top)
}
