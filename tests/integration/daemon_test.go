package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/tests/program"
)

// daemon is a server of somebody else's that a test runs for itself. It keeps all that it has below top. Its methods
// belong to one goroutine.
type daemon struct {
	name    string // for people
	top     string
	log     string              // the file with what it writes
	address string              // where it is to listen
	quit    syscall.Signal      // asks it to end, without waiting for its clients
	user    *syscall.Credential // who it runs as; nil for whoever tests

	program string
	args    []string
	cmd     *exec.Cmd // nil while it does not run
}

// newDaemon makes the directory of a daemon and finds it an address. The daemon ends with the test.
func newDaemon(t *testing.T, name string, quit syscall.Signal) *daemon {
	t.Helper()
	// Not below t.TempDir: others may not enter that, and a path to a socket has to be short.
	top, err := os.MkdirTemp("", "reap-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{name: name, top: top, log: program.LogFile(top), address: freeAddress(t), quit: quit}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			raw, _ := os.ReadFile(d.log) // what there is helps
			t.Logf("log of %s:\n%s", name, raw)
		}
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	return d
}

// asOrdinaryUser has a daemon that refuses to run as root run as nobody.
func (d *daemon) asOrdinaryUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	if err := os.Chown(d.top, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	d.user = &syscall.Credential{Uid: nobody, Gid: nobody}
}

func (d *daemon) path(name string) string { return filepath.Join(d.top, name) }

func (d *daemon) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(d.address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (d *daemon) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = d.top
	cmd.Env = []string{"HOME=" + d.top, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: d.user}
	return cmd
}

// prepare runs a program of the daemon's to its end.
func (d *daemon) prepare(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := d.command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// start starts the daemon, and returns when it listens. Without a program it is the one from before.
func (d *daemon) start(t *testing.T, command ...string) {
	t.Helper()
	if len(command) > 0 {
		d.program, d.args = command[0], command[1:]
	}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := d.command(d.program, d.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.cmd = cmd
	await(t, d.name, func(ctx context.Context) (bool, any) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
		if err != nil {
			return false, err
		}
		return c.Close() == nil, nil
	})
}

// stop ends the daemon, if it runs.
func (d *daemon) stop() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(d.quit) // it may have ended
	_ = d.cmd.Wait()                 // however that was
	d.cmd = nil
}

// programOf returns where a program is: where scripts/test has built it, on PATH, or where one of the patterns finds it.
func programOf(t *testing.T, name, install string, patterns ...string) string {
	t.Helper()
	if built := os.Getenv("REAP_TEST_DATASTORES"); built != "" {
		if path, err := exec.LookPath(filepath.Join(built, name)); err == nil {
			return path
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // fails for malformed patterns only
			return found[len(found)-1]
		}
	}
	t.Fatalf("%s is not found: install %s, or run scripts/test, which does, or test with -short", name, install)
	return ""
}

// freeAddress returns an address that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // its address is all that was wanted
	return l.Addr().String()
}
