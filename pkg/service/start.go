package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// start enables the service and starts or restarts it, as far as that is needed and wanted. next is what is left for
// the user to do first, if anything.
func (i *Installation) start(ctx context.Context) (next string, err error) {
	if i.init.kind == OpenRC {
		return i.startOpenRC(ctx)
	}
	return i.startSystemd(ctx)
}

var errReload = errors.New("systemctl daemon-reload failed")

func (i *Installation) startSystemd(ctx context.Context) (next string, err error) {
	unit := i.service + ".service"
	cannotEnable := fmt.Errorf("systemctl could not enable %s", unit)
	enable := "enable"
	if i.oldUnit != "" {
		enable = "reenable" // what enables it leads to the old unit
	}
	if !i.init.running {
		if i.in.SkipEnable || !have("systemctl") {
			i.say("%s was written and not enabled", unit)
			return "systemctl enable --now " + i.service, nil
		}
		if !i.ask(ctx, "systemctl", i.offline(), enable, unit) {
			return "", cannotEnable
		}
		i.say("systemd is not running here: %s starts with the next boot", i.service)
		// In a container that has systemctl there is none.
		with := ""
		if len(i.arguments) > 0 {
			with = " with your arguments"
		}
		return "boot, or start it by hand: " + i.binary() + " server" + with, nil
	}
	if i.restarting {
		if err := i.run(ctx, errReload, "systemctl", "daemon-reload"); err != nil {
			return "", err
		}
	}
	if !i.in.SkipEnable && (i.oldUnit != "" || !i.enabled(ctx, i.init)) {
		if !i.ask(ctx, "systemctl", enable, unit) {
			return "", cannotEnable
		}
		i.say("enabled %s: it starts with the machine", unit)
	}
	action := i.action(ctx)
	switch {
	case action == "":
		return "", nil
	case i.in.SkipStart || i.in.SkipEnable:
		i.say("no %s of %s, as asked", action, unit)
		return "systemctl " + action + " " + i.service, nil
	}
	// Type=notify: this returns when the server is ready.
	i.say("%s of %s", action, unit)
	failed := fmt.Errorf("%s did not become ready; see: journalctl -u %s", unit, i.service)
	if err := i.run(ctx, failed, "systemctl", action, unit); err != nil {
		return "", err
	}
	return "", i.ready()
}

func (i *Installation) startOpenRC(ctx context.Context) (next string, err error) {
	if !i.init.running {
		i.say("OpenRC is not running here; %s was written and not enabled", i.service)
		return fmt.Sprintf("in the installed system, rc-update add %s default && rc-service %s start", i.service, i.service), nil
	}
	if !i.in.SkipEnable && !i.enabled(ctx, i.init) {
		if !i.ask(ctx, "rc-update", "add", i.service, "default") {
			return "", fmt.Errorf("rc-update could not add %s", i.service)
		}
		i.say("added %s to the runlevel default: it starts with the machine", i.service)
	}
	action := i.action(ctx)
	switch {
	case action == "":
		return "", nil
	case i.in.SkipStart || i.in.SkipEnable:
		i.say("no %s of %s, as asked", action, i.service)
		return "rc-service " + i.service + " " + action, nil
	}
	i.say("%s of %s", action, i.service)
	log := i.logFile()
	if err := i.run(ctx, fmt.Errorf("%s did not start; see %s", i.service, log), "rc-service", i.service, action); err != nil {
		return "", err
	}
	// OpenRC waits for a process, not for a server that answers.
	if err := i.awaitReady(ctx); err != nil {
		return "", fmt.Errorf("%s did not become ready: %w; see %s", i.service, err, log)
	}
	return "", i.ready()
}

// action is what a service needs: to be started, to be restarted, or nothing, which it says.
func (i *Installation) action(ctx context.Context) string {
	switch {
	case !i.active(ctx, i.init.kind):
		return "start"
	case i.restarting:
		return "restart"
	}
	i.say("nothing changed: %s goes on running, and was not restarted", i.service)
	return ""
}

// ready notes that the service runs with everything that was written.
func (i *Installation) ready() error {
	if err := i.remove(i.mark); err != nil {
		return err
	}
	i.say("%s is ready", i.service)
	return nil
}

// askingEvery is the time between two looks at the ready file.
const askingEvery = 200 * time.Millisecond

func (i *Installation) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, i.in.Wait, fmt.Errorf("no answer within %s", i.in.Wait))
	defer cancel()
	tick := time.NewTicker(askingEvery)
	defer tick.Stop()
	for {
		if pid, err := i.server(i.dataDir); err != nil || pid > 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// server returns the process of the server that is ready on a data directory; 0 if there is none. The ready file is
// there exactly while a server is ready, unless one that was killed left it. The error is that the caller may not look.
func (p place) server(dataDir string) (pid int, err error) {
	raw, err := os.ReadFile(p.at(dataDir) + "/ready.json")
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("looking whether a server is ready: %w", err)
	}
	if err != nil {
		return 0, nil
	}
	var ready struct {
		PID int `json:"pid"`
	}
	if json.Unmarshal(raw, &ready) != nil || ready.PID <= 0 {
		return 0, nil
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(ready.PID)); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return ready.PID, nil
}
