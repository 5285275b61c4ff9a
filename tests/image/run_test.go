//go:build releasetest && linux

package image

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	startWithin = 60 * time.Second
	patience    = 60 * time.Second
	// stopWithin is what Docker and Kubernetes give at least.
	stopWithin = 10 * time.Second
	poll       = 25 * time.Millisecond
)

// container is an image with a volume.
type container struct {
	image  config
	root   string
	volume string
	// env is what the user sets.
	env []string
}

// withVolume returns the container with a new volume, which holds what the image has there, as Docker's do.
func (c container) withVolume(t *testing.T) container {
	t.Helper()
	c.volume = filepath.Join(t.TempDir(), "volume")
	from := filepath.Join(c.root, data)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		to := filepath.Join(c.volume, strings.TrimPrefix(path, from))
		if d.IsDir() {
			err = os.Mkdir(to, info.Mode().Perm())
		} else {
			var content []byte
			if content, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(to, content, info.Mode().Perm())
			}
		}
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		return os.Chown(to, int(stat.Uid), int(stat.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// process is a command in the container, as the image has it run.
func (c container) process(t *testing.T, args ...string) process {
	t.Helper()
	p := process{
		Root: c.root, Volume: c.volume, At: data, Dir: c.image.WorkingDir,
		Args: args, Env: set(c.image.Env, c.env...),
	}
	if _, err := fmt.Sscanf(c.image.User, "%d:%d", &p.UID, &p.GID); err != nil {
		t.Fatalf("the image's user is %q: %v", c.image.User, err)
	}
	return p
}

type result struct {
	code           int
	stdout, stderr string
}

func finish(t *testing.T, p process) result {
	t.Helper()
	cmd := p.command(t)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// run runs a command to its end, as docker exec does.
func (c container) run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, c.process(t, args...))
}

// mustBeHealthy runs the image's healthcheck.
func (c container) mustBeHealthy(t *testing.T, when string, healthy bool) {
	t.Helper()
	want := 1
	if healthy {
		want = 0
	}
	test := c.image.Healthcheck.Test[1:] // after CMD
	if got := c.run(t, test...); got.code != want || strings.Count(got.stdout+got.stderr, "\n") != 1 {
		t.Errorf("the healthcheck %s: %+v", when, got)
	}
}

// server is a running container.
type server struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs the image's own command, and returns when the server is ready.
func (c container) start(t *testing.T, change func(*process)) *server {
	t.Helper()
	p := c.process(t, slices.Concat(c.image.Entrypoint, c.image.Cmd)...)
	if change != nil {
		change(&p)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: p.command(t), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // the state says all of it
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // has ended if all is well
		<-s.done
		if t.Failed() {
			raw, _ := os.ReadFile(log.Name()) // what there is helps
			t.Logf("log of %q:\n%s", p.Args, raw)
		}
		_ = log.Close()
	})
	err = wait.PollUntilContextTimeout(t.Context(), poll, startWithin, true, func(context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, fmt.Errorf("it ended: %s", s.cmd.ProcessState)
		default:
		}
		_, err := os.Stat(filepath.Join(c.volume, "ready.json"))
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for the server: %v", err)
	}
	return s
}

// stop does what docker stop does, and checks how the server takes it.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(stopWithin):
		t.Fatalf("still running %s after SIGTERM", stopWithin)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("after SIGTERM: %s", s.cmd.ProcessState)
	}
}

// mustRun has a server work, end, and start again on what it left.
func mustRun(t *testing.T, c container) {
	const n, name = 1000, "edge-1.example.com"
	// The machine's network, but a free port. All else is the image's.
	c.env = []string{"REAP_HTTPS_LISTEN_PORT=0", "REAP_TLS_SAN=" + name}
	c.mustBeHealthy(t, "before the start", false)
	s := c.start(t, nil)
	c.mustBeHealthy(t, "of a server that is ready", true)

	k := c.connect(t)
	k.mustListenEverywhere(t, name)
	kept := k.mustCollect(t, n)

	s.stop(t)
	c.mustBeHealthy(t, "after the end", false)
	mustOwnTheVolume(t, c)

	s = c.start(t, nil)
	c.mustBeHealthy(t, "after a restart", true)
	c.connect(t).mustHave(t, kept)
	s.stop(t)
}

// connect takes the kubeconfig that users take, which names an address that this machine reaches too.
func (c container) connect(t *testing.T) *clients {
	t.Helper()
	got := c.run(t, program, "kubectl", "config", "view", "--raw")
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("reading the kubeconfig: %+v", got)
	}
	k, err := newClients([]byte(got.stdout))
	if err != nil {
		t.Fatalf("using the kubeconfig: %v", err)
	}
	return k
}

// mustListenEverywhere looks for the server at an address of this machine that it has not been told, under a
// name that it has.
func (k *clients) mustListenEverywhere(t *testing.T, name string) {
	t.Helper()
	u, err := url.Parse(k.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if u.Hostname() != "127.0.0.1" {
		t.Errorf("the kubeconfig names %s", u)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.config.CAData)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.2", u.Port()))
	if err != nil {
		t.Errorf("reaching the server at another address: %v", err)
		return
	}
	_ = conn.Close() // the certificate was all
}

// mustOwnTheVolume holds that the server has done everything as its user.
func mustOwnTheVolume(t *testing.T, c container) {
	t.Helper()
	for path, f := range list(t, c.volume) {
		if f.uid != user || f.gid != user {
			t.Errorf("%s in the volume belongs to %d:%d", path, f.uid, f.gid)
		}
	}
}

// mustRunAlone runs the image where there is no address but the loopback interface's, and no default route.
func mustRunAlone(t *testing.T, c container) {
	s := c.start(t, func(p *process) { p.Alone = true })
	check := c.process(t, program, "healthcheck", "-o=json")
	check.Join = s.cmd.Process.Pid
	got := finish(t, check)
	var h struct {
		Ready bool
		URL   string
	}
	// The port is the image's own: nobody else has one here.
	if err := json.Unmarshal([]byte(got.stdout), &h); err != nil || got.code != 0 || !h.Ready || h.URL != "https://127.0.0.1:6443" {
		t.Errorf("the healthcheck: %+v (%v)", got, err)
	}
	s.stop(t)
}
