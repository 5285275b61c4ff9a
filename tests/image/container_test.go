//go:build releasetest && linux

package image

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asContainer makes the test binary become a container's process; its value is a process as JSON.
const asContainer = "REAP_TEST_AS_CONTAINER"

// namespaces are those that every container has of its own.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// process is what a container runtime is told to run.
type process struct {
	Root   string   // the image's root file system
	Volume string   // mounted where the image has its volume
	At     string   // where that is
	Dir    string   // the working directory
	UID    int      // of the user
	GID    int      // of the group
	Args   []string // the command
	Env    []string // its whole environment
	// Alone is true for a network of its own that leads nowhere, like that of docker run --network none.
	Alone bool
	// Join is the process whose network is used, if it is not 0.
	Join int
}

// command returns the process in new namespaces, in which it is the first. If the tests end, so does it.
func (p process) command(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{asContainer + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: namespaces,
	}
	if p.Alone {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	return cmd
}

// enter makes this process the one that text describes. It returns only if it cannot.
func enter(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	runtime.LockOSThread() // what is set for a thread is what the program gets
	if err := p.enterNetwork(); err != nil {
		return err
	}
	if err := p.enterRoot(); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		err  error
	}{
		{"giving up groups", syscall.Setgroups(nil)},
		{"becoming the group", syscall.Setgid(p.GID)},
		{"becoming the user", syscall.Setuid(p.UID)},
		{"giving up privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)},
		// Another user is not bound any more to the end of who started it.
		{"ending with the tests", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)},
	} {
		if step.err != nil {
			return fmt.Errorf("%s: %w", step.what, step.err)
		}
	}
	return fmt.Errorf("running %s: %w", p.Args[0], syscall.Exec(p.Args[0], p.Args, p.Env))
}

func (p process) enterNetwork() error {
	switch {
	case p.Join != 0:
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.Join))
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }() // it has been entered by then
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("joining a network: %w", err)
		}
	case p.Alone:
		// Runtimes leave the loopback interface up.
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(s) }() // nothing was sent
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
			return fmt.Errorf("bringing up the loopback interface: %w", err)
		}
	}
	return nil
}

// enterRoot makes the image's root file system the process's own, read-only but for the volume.
func (p process) enterRoot() error {
	in := func(path string) string { return filepath.Join(p.Root, path) }
	if err := os.MkdirAll(in("proc"), 0o755); err != nil {
		return err
	}
	for _, device := range []string{"null", "urandom"} {
		if err := touch(in("dev/" + device)); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		source, target, fs string
		flags              uintptr
	}{
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC}, // the machine sees none of these
		{p.Root, p.Root, "", unix.MS_BIND},
		{"/dev/null", in("dev/null"), "", unix.MS_BIND},
		{"/dev/urandom", in("dev/urandom"), "", unix.MS_BIND},
		{"proc", in("proc"), "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{p.Volume, in(p.At), "", unix.MS_BIND},
		{"", p.Root, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
	} {
		if err := unix.Mount(m.source, m.target, m.fs, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", m.source, m.target, err)
		}
	}
	if err := unix.Chroot(p.Root); err != nil {
		return fmt.Errorf("changing the root directory: %w", err)
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return fmt.Errorf("changing to the working directory %s: %w", p.Dir, err)
	}
	return nil
}

// touch makes an empty file, if there is none, and its directory.
func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// set returns an environment in which each of the variables replaces any of its name.
func set(env []string, variables ...string) []string {
	var all []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		replaced := false
		for _, v := range variables {
			replaced = replaced || strings.HasPrefix(v, name+"=")
		}
		if !replaced {
			all = append(all, e)
		}
	}
	return append(all, variables...)
}
