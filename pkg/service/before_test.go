package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// runningMachine is a machine on which an init system of the kind runs, and the service on it, which becomes ready unless its
// definition holds "broken". calls returns what the init system was told since the last call.
func runningMachine(t *testing.T, kind string) (s Settings, out fmt.Stringer, calls func() string) {
	t.Helper()
	grep := mustLookPath(t, "grep")
	s, buffer := machine(t, kind) // with a PATH of its own
	commands := t.TempDir()
	definition := "/etc/init.d/reap"
	if kind == Systemd {
		put(t, s, "/run/systemd/system/x", "", 0o644)
		definition = "/etc/systemd/system/reap.service"
	} else {
		put(t, s, "/run/openrc/softlevel", "", 0o644)
		put(t, s, "/var/log/reap.log", "reap: an error of another start\n", 0o644)
	}
	// A server that is ready is this test's process.
	script := fmt.Sprintf(`root=%s definition=%s pid=%d
case "$*" in
"start "*|"restart "*|*" start"|*" restart")
	printf '%%s\n' "$*" >>$t/calls
	if %s -q broken $root$definition; then
		echo 'reap: --write-kubeconfig: no such place' >>$root/var/log/reap.log
		: >$root/var/lib/reap/ready.json
		[ %s = systemd ] && exit 1
	else
		echo "{\"pid\": $pid}" >$root/var/lib/reap/ready.json
	fi
	: >$t/active
	exit 0
	;;
show*MainPID*) [ ! -e $t/active ] || echo MainPID=$pid ;;
*is-active*|*status) [ -e $t/active ] ;;
esac
`, s.Root, definition, os.Getpid(), grep, kind)
	for _, name := range []string{"systemctl", "rc-service", "rc-update"} {
		fake(t, commands, name, script)
	}
	fake(t, commands, "journalctl", `case "$*" in *--reverse*_SYSTEMD_UNIT=reap.service) ;; *) exit ;; esac
echo 'of another kind'
echo 'reap: --write-kubeconfig: no such place'
echo 'time=now level=info msg="reap is starting"'
echo 'reap: an earlier error'
`)
	t.Setenv("PATH", commands)
	for _, dir := range []string{"/var/lib/reap", "/var/log"} {
		if err := os.MkdirAll(s.Root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s, buffer, func() string {
		path := filepath.Join(commands, "calls")
		raw, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		_ = os.Remove(path) // there may be none
		return string(raw)
	}
}

// TestBrokenSettingsAreTakenBack: a service that works goes on with what it had if it does not become ready with something new.
func TestBrokenSettingsAreTakenBack(t *testing.T) {
	for _, kind := range []string{Systemd, OpenRC} {
		t.Run(kind, func(t *testing.T) {
			s, out, calls := runningMachine(t, kind)
			in := Install{Hash: hash, Wait: time.Millisecond}
			in.Arguments, in.Environment = []string{"--disable=gc"}, []string{"REAP_LOG_LEVEL=debug"}
			mustInstall(t, s, in)
			// Without the log and the ready file, which the fake server writes.
			files := func() []string {
				return slices.DeleteFunc(tree(t, s), func(line string) bool { return strings.Contains(line, "/var/") })
			}
			before := files()
			calls()

			in.Arguments, in.Environment = []string{"--write-kubeconfig=/broken"}, []string{"REAP_LOG_LEVEL=trace"}
			err := install(t, s, in)
			for _, want := range []string{
				"did not become ready", `its log says "reap: --write-kubeconfig: no such place"`, "reap runs again with the arguments and the environment before",
				map[string]string{Systemd: "journalctl -u reap", OpenRC: "/var/log/reap.log"}[kind],
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if after := files(); !slices.Equal(before, after) {
				t.Errorf("files changed:\n%q\n%q", before, after)
			}
			if got := calls(); strings.Count(got, "restart") != 2 {
				t.Errorf("the init system was told %q, said was %s", got, out)
			}
			mustInstall(t, s, Install{Hash: hash, Wait: time.Hour})
			if got := calls(); got != "" {
				t.Errorf("what runs as it is meant to was told %q", got)
			}

			// Another binary with the same settings is not gone back from.
			put(t, s, "/usr/local/bin/reap", "#!/bin/sh\n: broken\n", 0o755)
			in.Hash = "broken"
			in.Arguments, in.Environment = nil, nil
			if err := install(t, s, in); err == nil || strings.Contains(err.Error(), "before") {
				t.Errorf("got %v", err)
			}
			if got := calls(); strings.Count(got, "restart") != 1 {
				t.Errorf("the init system was told %q", got)
			}
		})
	}
}

// TestFirstInstallationHasNothingToGoBackTo, and says what the server says.
func TestFirstInstallationHasNothingToGoBackTo(t *testing.T) {
	s, _, calls := runningMachine(t, Systemd)
	err := install(t, s, Install{Hash: hash, Arguments: []string{"--x=broken"}})
	if want := "reap.service did not become ready: its log says \"reap: --write-kubeconfig: no such place\"; see: journalctl -u reap"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := calls(); got != "start reap.service\n" {
		t.Errorf("systemctl was told %q", got)
	}
}

// TestServerThatEndsIsNotWaitedFor: OpenRC's supervisor starts it again and again.
func TestServerThatEndsIsNotWaitedFor(t *testing.T) {
	s, _, _ := runningMachine(t, OpenRC)
	p, err := locate(s)
	if err != nil {
		t.Fatal(err)
	}
	// A supervisor with a server, which ends when its pipe is closed, and then without one.
	serverEnd, endServer := pipe(t)
	end, endSupervisor := pipe(t)
	supervisor := exec.Command("/bin/sh", "-c", "(read x <&3); read x <&4")
	supervisor.ExtraFiles = []*os.File{serverEnd, end}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = endSupervisor.Close()
		_ = supervisor.Wait() // read fails at the end of its input
	}()
	put(t, s, "/run/reap.pid", fmt.Sprintf("%d\n", supervisor.Process.Pid), 0o644)
	for {
		pid, known := p.supervised()
		if !known {
			t.Skip("this kernel does not say which children a process has")
		}
		if pid > 0 {
			break
		}
		runtime.Gosched()
	}
	ctx := &firstLook{Context: t.Context(), then: func() { _ = endServer.Close() }}
	if err := p.awaitReady(ctx, "/nowhere"); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
}

// firstLook is a context that is asked once after each look of awaitReady's, and calls then after the first.
type firstLook struct {
	context.Context
	then func()
}

func (f *firstLook) Done() <-chan struct{} {
	if f.then != nil {
		f.then()
		f.then = nil
	}
	return f.Context.Done()
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, w
}

func TestLastError(t *testing.T) {
	for log, want := range map[string]string{
		"":                                     "",
		"a\nb\n":                               "b",
		"reap: one\nb\n":                       "reap: one",
		"reap: one\nx\nreap: two\n\n":          "reap: two",
		"{\"level\":\"error\",\"msg\":1}\nx\n": "{\"level\":\"error\",\"msg\":1}",
		"reap: " + strings.Repeat("x", 600):    "reap: " + strings.Repeat("x", longestError-6) + "...",
	} {
		if got := lastError(log); got != want {
			t.Errorf("of %q: %q, want %q", log, got, want)
		}
	}
}
