package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// initSystem is what starts services on a machine, and whether it runs, which it does not while an image is built.
type initSystem struct {
	kind    string
	running bool
}

func have(command string) bool {
	_, err := exec.LookPath(command)
	return err == nil
}

// findInit returns the init system of the machine below the root.
func (p place) findInit() initSystem {
	switch {
	case have("systemctl") && isDir(p.at("/run/systemd/system")):
		return initSystem{Systemd, true}
	case executable(p.at("/sbin/openrc-run")):
		return initSystem{OpenRC, have("rc-service") && exists(p.at("/run/openrc/softlevel"))}
	case have("systemctl") || p.systemdSet:
		return initSystem{kind: Systemd}
	}
	return initSystem{kind: None}
}

// definition is the path of what makes a service one; "" without an init system.
func (p place) definition(kind string) string {
	switch kind {
	case Systemd:
		return p.unit
	case OpenRC:
		return p.rcScript
	}
	return ""
}

// run runs a command of the init system, whose output is shown. failed, which may be nil, is the error if it fails by
// itself; if ctx ends it, the error is always one.
func (p place) run(ctx context.Context, failed error, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	cmd.WaitDelay = time.Second // what it has started may hold its output open
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), context.Cause(ctx))
	}
	return failed
}

// ask runs a command of the init system for its exit code alone.
func (p place) ask(ctx context.Context, name string, args ...string) bool {
	return exec.CommandContext(ctx, name, args...).Run() == nil
}

// active reports whether the init system runs the service.
func (p place) active(ctx context.Context, kind string) bool {
	switch kind {
	case Systemd:
		return p.ask(ctx, "systemctl", "is-active", "--quiet", p.service+".service")
	case OpenRC:
		return p.ask(ctx, "rc-service", p.service, "status")
	}
	return false
}

// runs reports whether the service has a process, which may not be ready yet.
func (p place) runs(ctx context.Context, kind string) bool {
	if kind != Systemd {
		return p.active(ctx, kind)
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", p.service+".service").Output()
	pid, found := strings.CutPrefix(strings.TrimSpace(string(out)), "MainPID=")
	return err == nil && found && pid != "0"
}

// offline is systemctl's flag for a systemd that does not run.
func (p place) offline() string {
	if p.Root == "" {
		return "--root=/"
	}
	return "--root=" + p.Root
}

// enabled reports whether the service starts with the machine.
func (p place) enabled(ctx context.Context, init initSystem) bool {
	switch init.kind {
	case Systemd:
		if !init.running {
			return p.ask(ctx, "systemctl", p.offline(), "is-enabled", "--quiet", p.service+".service")
		}
		return p.ask(ctx, "systemctl", "is-enabled", "--quiet", p.service+".service")
	case OpenRC:
		return exists(p.at("/etc/runlevels/default/" + p.service))
	}
	return false
}

// checkBinary fails if there is no program to run.
func (p place) checkBinary() error {
	if !executable(p.at(p.binary())) {
		return fmt.Errorf("there is no program %s: name the directory of reap with --bin-dir", p.binary())
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func executable(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
