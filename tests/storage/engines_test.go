// Package storage runs the suite that the API server has for its own storage (k8s.io/apiserver/pkg/storage/testing) against reap's
// datastores, through the API server's own store (k8s.io/apiserver/pkg/storage/etcd3).
package storage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/tests/size"
)

// exception, in the environment, has a test binary run one entry of the suite although the engine is known to fail it.
const exception = "REAP_TEST_STORAGE_EXCEPTION"

// The engines that keep their files in the data directory.
var (
	sqlite = engine{endpoint: func() string { return "" }}
	etcd   = engine{endpoint: func() string { return datastore.Etcd }}
)

func TestSuiteOnSQLite(t *testing.T) { sqlite.mustPass(t) }

func TestSuiteOnEtcd(t *testing.T) { etcd.mustPass(t) }

// mustPass runs the whole suite. The test fails if an entry does that is no exception, or an exception does not.
func (e engine) mustPass(t *testing.T) {
	var passed atomic.Int64
	t.Cleanup(func() { size.Power(t, fmt.Sprintf("passed=%d exceptions=%d", passed.Load(), len(e.exceptions))) })
	known := map[string]bool{}
	for _, entry := range suite {
		known[entry.name] = true
		reason, excepted := e.exceptions[entry.name]
		t.Run(entry.name, func(t *testing.T) {
			if excepted && os.Getenv(exception) == "" {
				mustFail(t, reason)
				return
			}
			if len(entry.gates) == 0 {
				t.Parallel() // it mostly waits
			}
			entry.gates.set(t)
			entry.run(t, e)
			if !t.Failed() {
				passed.Add(1)
			}
		})
	}
	for name := range e.exceptions {
		if !known[name] {
			t.Errorf("the exception %s is of no entry of the suite", name)
		}
	}
}

// mustFail runs the test that calls it in a process of its own, where it may fail, and fails if it does not.
func mustFail(t *testing.T, reason string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), exception+"=1")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "PASS"):
		t.Errorf("it passes, and is listed as an exception: %s", reason)
	case !errors.As(err, &failed):
		t.Fatalf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- FAIL: "+t.Name()):
		t.Fatalf("it was not run: %v\n%s", err, out)
	default:
		t.Logf("it fails, as expected: %s", reason)
	}
}
