// Package databases runs database servers of others for tests: real ones, each for one test alone.
package databases

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/tests/program"
)

// Server is a server of somebody else's that a test runs for itself. It keeps all that it has below top. Its methods
// belong to one goroutine.
type Server struct {
	name    string // for people
	top     string
	log     string              // the file with what it writes
	address string              // where it is to listen
	quit    syscall.Signal      // asks it to end, without waiting for its clients
	user    *syscall.Credential // who it runs as; nil for whoever tests

	program string
	args    []string
	ready   []string  // a command that fails until the server takes clients; empty if it does once it listens
	cmd     *exec.Cmd // nil while it does not run
}

// newServer makes the directory of a server and finds it an address. The server ends with the test.
func newServer(t *testing.T, name string, quit syscall.Signal) *Server {
	t.Helper()
	// Not below t.TempDir: others may not enter that, and a path to a socket has to be short.
	top, err := os.MkdirTemp("", "reap-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Server{name: name, top: top, log: program.LogFile(top), address: freeAddress(t), quit: quit}
	t.Cleanup(func() {
		d.Stop()
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

// asOrdinaryUser has a server that refuses to run as root run as nobody.
func (d *Server) asOrdinaryUser(t *testing.T) {
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

// Address is where the server listens.
func (d *Server) Address() string { return d.address }

func (d *Server) path(name string) string { return filepath.Join(d.top, name) }

func (d *Server) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(d.address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (d *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = d.top
	cmd.Env = []string{"HOME=" + d.top, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: d.user}
	return cmd
}

// Prepare runs a program to its end, as the server's user and in its directory.
func (d *Server) Prepare(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := d.command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// run starts the server by a command, and returns when it takes clients.
func (d *Server) run(t *testing.T, command ...string) {
	t.Helper()
	d.program, d.args = command[0], command[1:]
	d.Start(t)
}

// Start starts the server again that Stop has ended, and returns when it takes clients. It fails the test if it does not within two minutes.
func (d *Server) Start(t *testing.T) {
	t.Helper()
	d.begin(t)
	d.awaitClients(t)
}

// begin starts the server's process.
func (d *Server) begin(t *testing.T) {
	t.Helper()
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
}

// awaitClients returns when the server takes clients.
func (d *Server) awaitClients(t *testing.T) {
	t.Helper()
	var refused error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
		if err != nil {
			refused = err
			return false, nil
		}
		if err := c.Close(); err != nil || len(d.ready) == 0 {
			return err == nil, err
		}
		refused = d.command(d.ready[0], d.ready[1:]...).Run()
		return refused == nil, nil
	})
	if err != nil {
		t.Fatalf("starting %s: %v; the last answer was %v", d.name, err, refused)
	}
}

// Stop ends the server, if it runs, without waiting for its clients.
func (d *Server) Stop() {
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

// FreePort returns a port of 127.0.0.1 that nobody listens on. It is below those that the system chooses, so that it is still free
// when a process begins to listen there, later and after each restart.
func FreePort(t *testing.T) string {
	t.Helper()
	const lowest, ports = 20_000, 12_000
	for range 100 {
		port := strconv.Itoa(lowest + rand.IntN(ports))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no free port was found")
	return ""
}

func freeAddress(t *testing.T) string { return net.JoinHostPort("127.0.0.1", FreePort(t)) }
