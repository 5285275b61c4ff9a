// Package program says what tests run as reap, on which datastore, and where it logs. They run the built binary that users have, or with
// the race detector the test binary itself.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

const (
	// asReap makes a test binary run as reap.
	asReap = "REAP_TEST_AS_PROGRAM"
	// built names the binary that scripts/build has made; scripts/test sets it.
	built = "REAP_BINARY"
	// logs names the directory that keeps servers' logs when tests fail; scripts/test sets it.
	logs = "REAP_TEST_LOGS"
	// itself is the test binary. By this name another user can run it too, in whatever directory it was compiled.
	itself = "/proc/self/exe"
)

// servers counts the log files of this process.
var servers atomic.Int64

// IsReap reports whether a test has started this process as reap. Package asreap asks.
func IsReap() bool { return os.Getenv(asReap) != "" }

// Built returns an error if nobody has said where the built binary is. The error names what does.
func Built() error {
	if os.Getenv(built) == "" {
		return fmt.Errorf("%s does not name a reap to test: run ./scripts/test, which builds one, or set it to bin/reap's absolute path after ./scripts/build", built)
	}
	return nil
}

// Path is the program: the built binary if there is one, else the test binary itself, which is reap with the race detector.
func Path() string {
	if path := os.Getenv(built); path != "" {
		return path
	}
	return itself
}

// Command returns the program to run with an environment of its own, which ends with the tests.
func Command(env []string, args ...string) *exec.Cmd { return command(Path(), env, args...) }

// Server is Command for a server whose collector checks its own graph. With the race detector it is the test binary itself, so that
// races are found in it. CheckLog says whether either has found something. Memory is plenty where tests run: a server collects its
// garbage less often than it would by itself, which saves a thirtieth of a start's work.
func Server(env []string, args ...string) *exec.Cmd {
	env = append([]string{"REAP_GC_CHECK=1s", "GOGC=200"}, env...)
	if race {
		return command(itself, env, args...)
	}
	return Command(env, args...)
}

func command(path string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Args[0] = "reap"
	// The race detector would have each process sleep for a second at its end. scripts/test says which races it passes
	// over.
	cmd.Env = append([]string{asReap + "=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH")}, env...)
	// Signals to the tests' group are not for it; if the tests are killed, so is it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// As makes a command run as another user, who may not be allowed into the directory of the program. nil changes nothing.
// The returned function is to be called once the command has been started.
func As(cmd *exec.Cmd, user *syscall.Credential) (started func(), err error) {
	cmd.SysProcAttr.Credential = user
	if user == nil || cmd.Path == itself {
		return func() {}, nil
	}
	f, err := os.Open(cmd.Path)
	if err != nil {
		return nil, err
	}
	cmd.Path = "/proc/self/fd/3" // the first of ExtraFiles
	cmd.ExtraFiles = []*os.File{f}
	return func() { _ = f.Close() }, nil // the process has its own
}

// LogFile is where a server of a test logs whose files are below top, a directory of the test's own. In a run of
// scripts/test it is kept if a test fails, also by running into a timeout.
func LogFile(top string) string {
	kept := os.Getenv(logs)
	if kept == "" {
		return filepath.Join(top, "log")
	}
	// t.TempDir has the test's name in that of the directory above.
	name := filepath.Base(filepath.Dir(top)) + "-" + filepath.Base(top)
	return filepath.Join(kept, fmt.Sprintf("%.100s-%d.log", name, servers.Add(1)))
}
