package service

import (
	"context"
	"errors"
	"fmt"
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
	i.say("%s of %s", action, unit)
	if err := i.startOrGoBack(ctx, action); err != nil {
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
	if err := i.startOrGoBack(ctx, action); err != nil {
		return "", err
	}
	return "", i.ready()
}

// rcServiceWithin bounds rc-service, which stops a server within 35 seconds and may start the network first.
const rcServiceWithin = 2 * time.Minute

// bring starts or restarts the service, and returns when its server is ready on the data directory.
func (i *Installation) bring(ctx context.Context, action, dataDir string) error {
	since := i.logNow()
	if i.init.kind == Systemd {
		// Type=notify: this returns when the server is ready, or has ended.
		failed := fmt.Errorf("%s.service did not become ready", i.service)
		return i.explain(ctx, since, i.run(ctx, failed, "systemctl", action, i.service+".service"))
	}
	bounded, cancel := context.WithTimeoutCause(ctx, rcServiceWithin, fmt.Errorf("still busy after %s", rcServiceWithin))
	defer cancel()
	err := i.run(bounded, errors.New("rc-service could not start it"), "rc-service", i.service, action)
	if err == nil {
		// OpenRC waits for a process, not for a server that answers.
		waiting, cancel := context.WithTimeoutCause(ctx, i.in.Wait, fmt.Errorf("no answer within %s", i.in.Wait))
		defer cancel()
		err = i.awaitReady(waiting, dataDir)
	}
	if err != nil {
		err = fmt.Errorf("%s did not become ready: %w", i.service, err)
	}
	return i.explain(ctx, since, err)
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
