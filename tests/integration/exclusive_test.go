package integration

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/tests/program"
)

// result is how a process that did not keep running ended.
type result struct {
	code   int
	stdout string
	stderr string
}

// run runs the program to its end, which has to come soon.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runAs(t, nil, args...)
}

// runAs runs it as somebody else; nil is whoever tests.
func runAs(t *testing.T, user *syscall.Credential, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := reap([]string{"HOME=" + t.TempDir()}, args...)
	started, err := program.As(cmd, user)
	if err != nil {
		t.Fatal(err)
	}
	defer started()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), failWithin)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })() // may have ended
	err = cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("reap %s: still running after %s; it wrote %s", strings.Join(args, " "), failWithin, stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// mustFail wants one line that has all of these in it, and one of the program's codes for failure.
func (r result) mustFail(t *testing.T, says ...string) {
	t.Helper()
	if r.code != 1 && r.code != 2 {
		t.Errorf("exit code %d, want 1 or 2", r.code)
	}
	if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "reap: ") {
		t.Errorf("wants one line on stderr, got %q and on stdout %q", r.stderr, r.stdout)
	}
	for _, s := range says {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("%q does not say %q", r.stderr, s)
		}
	}
}

// mustWork checks that a server serves and collects, as clients that are connected already see it and
// as those that read its files now do.
func (s *server) mustWork(t *testing.T) {
	t.Helper()
	again := &server{}
	var err error
	if again.clients, err = newClients(s.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*server{s, again} {
		ns := c.namespace(t, "works")
		o := c.create(t, configMaps, ns, "owner")
		d := c.create(t, configMaps, ns, "dependent", owner(o))
		c.delete(t, configMaps, o)
		c.awaitGone(t, configMaps, d)
	}
}

func TestSecondServerOnTheSameDataDirectory(t *testing.T) {
	s := shared(t)
	before := files(t, s.dir)
	run(t, "server", "--config=", "--data-dir", s.dir, "--https-listen-port", "0").mustFail(t, s.dir)
	before.mustBe(t, files(t, s.dir))
	s.mustWork(t)
}

func TestSecondServerOnTheSamePort(t *testing.T) {
	s := shared(t)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	run(t, "server", "--config=", "--data-dir", dir, "--https-listen-port", u.Port()).mustFail(t, u.Host)
	s.mustWork(t)
	// It held the directory back from nobody.
	other := newServer(filepath.Dir(dir))
	other.start(t)
	other.mustWork(t)
}

// fileStates are what is in a directory, apart from the database and its mark, which a server goes on writing.
type fileStates map[string]string

func files(t *testing.T, dir string) fileStates {
	t.Helper()
	found := fileStates{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == storeFolder() {
			return filepath.SkipDir
		}
		if d.Name() == "reached.json" { // a running server writes it every half minute
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		state := info.Mode().String()
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			state += " " + string(raw)
		}
		found[path] = state
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (before fileStates) mustBe(t *testing.T, after fileStates) {
	t.Helper()
	for path, state := range before {
		if now, ok := after[path]; !ok || now != state {
			t.Errorf("%s was %q and is %q", path, state, now)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}
