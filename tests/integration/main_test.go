// Package integration tests the program as its users meet it: as a process with flags, signals, files
// and an API. What runs as reap, tests/program says: the built binary, or with the race detector the test binary.
//
// Most tests share one server and keep to namespaces of their own. They run one after the other, since some
// compare everything that exists before and after. Those with servers of their own, and one that only waits,
// run side by side after all others, or in a process of their own (parts_test.go).
package integration

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/reap-dev/reap/tests/program"
	"github.com/reap-dev/reap/tests/program/asreap"
	"github.com/reap-dev/reap/tests/size"
)

func TestMain(m *testing.M) {
	asreap.Main()
	flag.Parse()
	configure()
	if err := choosePart(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := endCommon(); err != nil {
		fmt.Fprintln(os.Stderr, "the server that the tests share:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// configure sets flags of go test that were not given.
func configure() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["test.run"] && !given["test.list"] && size.Of(true, true, false) && len(underRace) > 0 {
		set("test.run", "^("+strings.Join(underRace, "|")+")$")
	}
	// Tests that run side by side wait longer than they compute: some for a minute and a half, for a deadline or a lease to pass.
	// Beside the other part there is less room. go test always gives this flag its default.
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		times := 3
		if os.Getenv(part) != "" {
			times = 2
		}
		set("test.parallel", strconv.Itoa(times*runtime.GOMAXPROCS(0)))
	}
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err) // the flag is go test's own
	}
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
		err = program.CheckLog(common.s.logFrom(0))
	}
	if err != nil {
		common.s.kill()
		return fmt.Errorf("%w\n%s", err, common.s.logTail(0))
	}
	return os.RemoveAll(common.top)
}
