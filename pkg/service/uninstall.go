package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// An Uninstallation removes what an Installation has made. Until Apply nothing is changed.
type Uninstallation struct {
	place
	init       string
	dataDir    string
	dir        string // the data directory itself, without links; "" if there is none
	binDirMade bool
}

// PlanUninstall finds out what belongs to a service.
func PlanUninstall(s Settings) (*Uninstallation, error) {
	p, err := locate(s)
	if err != nil {
		return nil, err
	}
	r, err := p.readRecord()
	if err != nil {
		return nil, err
	}
	p.unit, p.rcScript, p.envFile = r.unit, r.rcScript, r.envFile
	u := &Uninstallation{place: p, init: r.init, dataDir: r.dataDir, binDirMade: r.binDirMade}
	if u.init != None && p.User != 0 {
		return nil, errors.New("removing a service needs root: run this with sudo")
	}
	if isDir(p.at(u.dataDir)) {
		if u.dir, err = filepath.EvalSymlinks(p.at(u.dataDir)); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// Data is the data directory; "" if there is none.
func (u *Uninstallation) Data() string {
	if u.dir == "" {
		return ""
	}
	return u.dataDir
}

// Apply removes the service and, with purge, its data. All that can be wrong with the data directory is found before
// anything is removed.
func (u *Uninstallation) Apply(ctx context.Context, purge bool) error {
	purge = purge && u.dir != ""
	if purge {
		if err := u.checkPurge(); err != nil {
			return err
		}
	}
	if err := u.removeService(ctx); err != nil {
		return err
	}
	switch {
	case purge:
		if err := u.purge(); err != nil {
			return err
		}
		u.say("removed the data in %s", u.dataDir)
	case u.dir != "":
		u.say("kept the data in %s", u.dataDir)
	}
	if err := u.removeBinary(); err != nil {
		return err
	}
	u.say("uninstalled %s", u.service)
	return nil
}

// removeService stops the service and removes its files.
func (u *Uninstallation) removeService(ctx context.Context) error {
	var err error
	switch u.init {
	case Systemd:
		err = u.removeUnit(ctx)
	case OpenRC:
		err = u.removeRCScript(ctx)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	for _, path := range []string{u.envFile, u.mark} {
		if err := u.remove(path); err != nil {
			return err
		}
	}
	removeEmpty(u.at(settingsDir))
	for _, kept := range []string{settingsDir, u.unit + ".d"} {
		if isDir(u.at(kept)) {
			u.say("kept %s: there are settings in it that are not of %s's installation", kept, u.service)
		}
	}
	return nil
}

func (u *Uninstallation) removeUnit(ctx context.Context) error {
	unit := u.service + ".service"
	running := have("systemctl") && isDir(u.at("/run/systemd/system"))
	if running {
		// It complains about a unit that is not there: what matters is asked next.
		if err := u.run(ctx, nil, "systemctl", "disable", "--now", unit); err != nil {
			return err
		}
		if u.active(ctx, Systemd) {
			return fmt.Errorf("%s is still running; nothing was removed", unit)
		}
	} else if have("systemctl") {
		if err := u.run(ctx, nil, "systemctl", u.offline(), "disable", unit); err != nil { // as above
			return err
		}
	}
	if err := u.remove(u.unit); err != nil || !running {
		return err
	}
	if err := u.run(ctx, errReload, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	u.ask(ctx, "systemctl", "reset-failed", unit) // which fails unless it had failed
	return nil
}

func (u *Uninstallation) removeRCScript(ctx context.Context) error {
	if have("rc-service") {
		// It complains about a service that does not run: what matters is asked next.
		if err := u.run(ctx, nil, "rc-service", u.service, "stop"); err != nil {
			return err
		}
		if u.active(ctx, OpenRC) {
			return fmt.Errorf("%s is still running; nothing was removed", u.service)
		}
		if err := u.run(ctx, nil, "rc-update", "del", u.service); err != nil { // as above, of a service in no runlevel
			return err
		}
	}
	if err := u.remove(u.rcScript); err != nil {
		return err
	}
	return u.removeLogs()
}

// removeBinary removes the uninstall script and, after the last one, the binary that all services installed from its
// directory share.
func (u *Uninstallation) removeBinary() error {
	if err := u.remove(u.uninstallScript(u.BinDir)); err != nil {
		return err
	}
	for _, name := range []string{"reap-uninstall.sh", "reap-*-uninstall.sh"} {
		if others, _ := filepath.Glob(u.at(filepath.Join(u.BinDir, name))); len(others) > 0 { // the pattern is good
			u.say("kept %s: another service uses it", u.binary())
			return nil
		}
	}
	if err := u.removeLinks(); err != nil {
		return err
	}
	if err := u.remove(u.binary()); err != nil {
		return err
	}
	if u.binDirMade {
		removeEmpty(u.at(u.BinDir))
	}
	return nil
}
