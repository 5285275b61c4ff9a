package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Status says how a service is. Its fields are stable.
type Status struct {
	// Version is that of this format.
	Version int `json:"version"`
	// Service is the name of the service, and Init the init system that it is installed for: systemd, openrc, or none.
	Service string `json:"service"`
	Init    string `json:"init"`
	// Installed, Enabled, Active and Ready say that it was installed, starts with the machine, runs, and answers.
	Installed bool `json:"installed"`
	Enabled   bool `json:"enabled"`
	Active    bool `json:"active"`
	Ready     bool `json:"ready"`
	// ReadyUnknown means that the caller may not see whether a server is ready, nor, without an init system, whether one
	// runs: Ready and Active are false then.
	ReadyUnknown bool `json:"readyUnknown,omitempty"`
	// RestartPending means that something has changed that it does not run with yet.
	RestartPending bool `json:"restartPending"`
	// ChangedSettings names the settings that have other values since the server was started, and SettingsError says why it would not
	// start again with them. Both are empty for a caller who may not see the server's.
	ChangedSettings []string `json:"changedSettings,omitempty"`
	SettingsError   string   `json:"settingsError,omitempty"`
	// PID is the process of the server that is ready, if the caller may know.
	PID int `json:"pid,omitempty"`
	// Paths of what belongs to it.
	Binary          string `json:"binary,omitempty"`
	Definition      string `json:"definition,omitempty"`
	EnvironmentFile string `json:"environmentFile,omitempty"`
	DataDir         string `json:"dataDir,omitempty"`
	UninstallScript string `json:"uninstallScript,omitempty"`
}

// ReadStatus finds out how a service is. It changes nothing, and needs no rights but to see who runs.
func ReadStatus(ctx context.Context, s Settings) (Status, error) {
	p, err := locate(s)
	if err != nil {
		return Status{}, err
	}
	init := p.findInit()
	status := Status{Version: 1, Service: p.service, Init: init.kind}
	r, err := p.readRecord()
	if missing := (errNotInstalled{}); errors.As(err, &missing) {
		return status, nil
	}
	if err != nil {
		return status, err
	}
	p.unit, p.rcScript, p.envFile = r.unit, r.rcScript, r.envFile
	status.Init = r.init
	status.Binary, status.DataDir, status.UninstallScript = p.binary(), r.dataDir, p.uninstallScript(p.BinDir)
	var hidden error
	status.PID, hidden = p.server(r.dataDir)
	if r.init == None {
		status.Installed = executable(p.at(p.binary()))
		status.Active, status.Ready = status.PID > 0, status.PID > 0
		status.ReadyUnknown = hidden != nil
		return status, nil
	}
	status.Definition, status.EnvironmentFile = p.definition(r.init), r.envFile
	status.Installed = isFile(p.at(status.Definition))
	if !status.Installed || init.kind != r.init {
		return status, nil
	}
	status.Enabled = p.enabled(ctx, init)
	if !init.running {
		return status, nil
	}
	status.Active = p.active(ctx, r.init)
	// systemd is told by the server; OpenRC knows of a process alone.
	status.Ready = status.Active && (r.init == Systemd || status.PID > 0)
	status.ReadyUnknown = status.Active && !status.Ready && hidden != nil
	if status.Active {
		var failing error
		if status.ChangedSettings, failing = p.changedSettings(ctx, r.dataDir, r.init); failing != nil {
			status.SettingsError = oneLineOf(failing)
		}
		status.RestartPending = exists(p.at(p.mark)) || len(status.ChangedSettings) > 0 || failing != nil
	}
	return status, ctx.Err()
}

// Verdict is an error if the service does not run.
func (s Status) Verdict() error {
	switch {
	case !s.Installed:
		return fmt.Errorf("%s is not installed: 'reap service install' does it", s.Service)
	case s.ReadyUnknown:
		return fmt.Errorf("whether a server is ready on %s is for root to see, or for its owner: run this with sudo", s.DataDir)
	case !s.Active && s.Init == Systemd:
		return fmt.Errorf("%s does not run: systemctl start %s", s.Service, s.Service)
	case !s.Active && s.Init == OpenRC:
		return fmt.Errorf("%s does not run: rc-service %s start", s.Service, s.Service)
	case !s.Active:
		return fmt.Errorf("no server is ready on %s, and nothing here starts one: run '%s server'", s.DataDir, s.Binary)
	case !s.Ready:
		return fmt.Errorf("%s runs and is not ready: see /var/log/%s.log", s.Service, s.Service)
	}
	return nil
}

// Print writes it for people.
func (s Status) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "service\t%s\n", s.Service)
	fmt.Fprintf(w, "init system\t%s\n", s.Init)
	for _, f := range []struct {
		name        string
		is, unknown bool
	}{
		{"installed", s.Installed, false}, {"enabled", s.Enabled, false}, {"active", s.Active, s.ReadyUnknown && s.Init == None},
		{"ready", s.Ready, s.ReadyUnknown}, {"restart pending", s.RestartPending, false},
	} {
		word := map[bool]string{true: "yes", false: "no"}[f.is]
		if f.unknown {
			word = "unknown"
		}
		if f.name == "restart pending" && len(s.ChangedSettings) > 0 {
			word += ": changed " + strings.Join(s.ChangedSettings, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\n", f.name, word)
	}
	for _, f := range []struct{ name, value string }{
		{"settings error", s.SettingsError}, {"binary", s.Binary}, {"definition", s.Definition}, {"settings", s.EnvironmentFile}, {"data", s.DataDir}, {"uninstall", s.UninstallScript},
	} {
		if f.value != "" {
			fmt.Fprintf(w, "%s\t%s\n", f.name, f.value)
		}
	}
	return w.Flush()
}

// oneLineOf returns an error's text as a row of a table takes it.
func oneLineOf(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
