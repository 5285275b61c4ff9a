package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// changedSettings returns the settings that a running server would have other values of if it were started again: the environment file
// and the configuration files may have been edited. It returns none if the server does not say what it runs with. err is the reason
// why the server would not start again.
func (p place) changedSettings(ctx context.Context, dataDir, kind string) (changed []string, err error) {
	if dataDir == "" || p.Digests == nil {
		return nil, nil
	}
	ready, _ := p.readReady(dataDir) // who may not look is told so elsewhere
	if ready == nil || len(ready.Settings) == 0 {
		return nil, nil
	}
	arguments, known := argumentsOf(ready.PID)
	if !known {
		return nil, nil
	}
	text, err := os.ReadFile(p.at(p.envFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil // it is root's
	}
	now, err := p.Digests(Server{
		Arguments: arguments, Environment: append(p.unitEnvironment(ctx, kind), variables(string(text))...), Root: p.Root,
	})
	if err != nil {
		return nil, fmt.Errorf("a restart would fail: %w", err)
	}
	for name, digest := range ready.Settings {
		if other, there := now[name]; there && other != digest {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// argumentsOf returns the arguments after "server" of a running process; known is false if there are none to see. They are not read
// from the definition, which a drop-in may replace.
func argumentsOf(pid int) (arguments []string, known bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, false
	}
	words := strings.Split(string(bytes.TrimSuffix(raw, []byte{0})), "\x00")
	n := slices.Index(words, "server")
	if n < 1 {
		return nil, false
	}
	return words[n+1:], true
}

// unitEnvironment returns the variables that a unit and its drop-ins set, which the environment file overrides.
func (p place) unitEnvironment(ctx context.Context, kind string) []string {
	if kind != Systemd {
		return nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=Environment", p.service+".service").Output()
	if err != nil {
		return nil
	}
	assignments, err := shellSplit(strings.TrimPrefix(strings.TrimSpace(string(out)), "Environment="))
	if err != nil {
		return nil
	}
	return assignments
}
