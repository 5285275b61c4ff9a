package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// An Installation is a service as it should be. Until Apply nothing is changed.
type Installation struct {
	place
	in         Install
	init       initSystem
	arguments  []string
	dataDir    string
	running    string // the data directory of the installed service while it runs; "" if it does not
	files      []file // in the order in which they are written
	oldBinDir  string // where the binary of the installed service is
	oldUnit    string // systemd's unit that has moved; "" if none has
	restarting bool   // something that the service runs with has changed
	before     state  // the service that worked, to go back to
}

// Plan finds out what an installation consists of, and all that is wrong with its settings.
func Plan(ctx context.Context, s Settings, in Install) (*Installation, error) {
	p, err := locate(s)
	if err != nil {
		return nil, err
	}
	old, err := p.readRecord() // without one the binary has not been installed here
	if err != nil {
		old = record{}
	}
	installed := p.installedUnit(old)
	if installed != "" && !p.systemdSet {
		p.unit, p.systemdSet = installed, true // it stays where it is
	}
	i := &Installation{place: p, in: in, init: initSystem{kind: None}}
	if p.User == 0 {
		i.init = p.findInit()
	}
	if i.init.kind == Systemd && installed != "" && !i.sameDir(installed, i.unit) {
		i.oldUnit = installed
	}
	if i.in.Hash == "" {
		if i.in.Hash, err = p.hash(); err != nil {
			return nil, err
		}
	}
	definition, environment := "", ""
	if i.init.kind != None {
		if definition, err = readOptional(p.at(cmp.Or(i.oldUnit, p.definition(i.init.kind)))); err != nil {
			return nil, err
		}
		if environment, err = p.environment(in.Environment); err != nil {
			return nil, err
		}
	}
	i.oldBinDir = definedBinDir(i.init.kind, definition)
	if i.arguments, err = p.arguments(in.Arguments, definition); err != nil {
		return nil, err
	}
	if err := i.findDataDir(environment, definition == "" || len(in.Arguments) > 0); err != nil {
		return nil, err
	}
	if i.init.running && i.runs(ctx, i.init.kind) {
		i.running = old.dataDir
	}
	if err := i.checkServer(environment); err != nil {
		return nil, err
	}
	if i.files, err = i.wanted(environment, in.BinDirMade || old.binDirMade); err != nil {
		return nil, err
	}
	for _, f := range i.files {
		if err := p.checkPlace(f); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// wanted returns the files of the service, in the order in which they are written.
func (i *Installation) wanted(environment string, binDirMade bool) (files []file, err error) {
	if i.init.kind != None {
		files = append(files,
			file{path: i.envFile, content: environment, mode: 0o600},
			i.serviceDefinition(i.init.kind, i.in.Hash, i.dataDir, i.arguments))
	}
	if i.init.kind == OpenRC {
		f, ok, err := i.logRotation()
		if err != nil {
			return nil, err
		}
		if ok {
			files = append(files, f)
		}
	}
	if i.oldUnit != "" {
		files = append(files, file{path: i.oldUnit, gone: true}) // before the record, which no longer names it
	}
	return append(files, i.script(record{
		init: i.init.kind, hash: i.in.Hash, binDirMade: binDirMade, unit: i.unit, rcScript: i.rcScript, envFile: i.envFile, dataDir: i.dataDir,
	})), nil
}

// unitDirs are where systemd looks for units, the first one first.
var unitDirs = []string{defaultSystemdDir, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// installedUnit returns the path of the unit that an installation has written: where its record says or, if the binary has
// been somewhere else, where systemd looks; "" if there is none.
func (p place) installedUnit(old record) string {
	if old.init == Systemd && isFile(p.at(old.unit)) {
		return old.unit
	}
	for _, dir := range unitDirs {
		path := dir + "/" + p.service + ".service"
		if text, err := readOptional(p.at(path)); err == nil && recorded(text, "# binary: ") != "" {
			return path
		}
	}
	return ""
}

// sameDir reports whether two paths are in one directory, of which /lib is one name and /usr/lib another on many a machine.
func (p place) sameDir(a, b string) bool {
	a, b = filepath.Dir(p.at(a)), filepath.Dir(p.at(b))
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// checkServer fails if the server would: a service that runs is not restarted into that.
func (i *Installation) checkServer(environment string) error {
	if i.in.Check == nil || i.init.kind == None {
		return nil
	}
	server := Server{
		Arguments: i.arguments, Environment: variables(environment), Root: i.Root,
		Starts: i.init.running && i.Root == "" && !i.in.SkipStart && !i.in.SkipEnable,
	}
	if i.running != "" {
		server.Running = i.at(i.running)
	}
	if err := i.in.Check(server); err != nil {
		// A value in it may be long, or hold tabs.
		text := strings.ReplaceAll(err.Error(), "\t", " ")
		return fmt.Errorf("reap server would not start with these arguments and the settings in %s: %.1000s", i.envFile, text)
	}
	return nil
}

// findDataDir sets the data directory. A second service gets one of its own, and a port and no configuration file, among its
// arguments if they are new and say otherwise neither themselves nor in the environment.
func (i *Installation) findDataDir(environment string, anew bool) (err error) {
	config := configFile(i.arguments, environment)
	if i.init.kind != None && config != "" && !strings.HasPrefix(config, "/") {
		return fmt.Errorf("a service has no current directory: --config %.100q must start with /", config)
	}
	if i.service != defaultName {
		err = i.beSecond(environment, anew)
	} else if i.dataDir = dataDir(i.arguments, environment); i.dataDir == "" {
		var file configured
		file, err = i.readConfig(config)
		i.dataDir = cmp.Or(file.DataDir, i.in.DefaultDataDir, "/var/lib/"+defaultName)
	}
	if err != nil {
		return err
	}
	if i.init.kind != None && !strings.HasPrefix(i.dataDir, "/") {
		return fmt.Errorf("a service has no current directory: --data-dir %.100q must start with /", i.dataDir)
	}
	if err := oneLine(i.dataDir); err != nil {
		return fmt.Errorf("--data-dir %.100q %w", i.dataDir, err)
	}
	return nil
}

// hash returns the SHA-256 of the binary.
func (p place) hash() (string, error) {
	if err := p.checkBinary(); err != nil {
		return "", err
	}
	f, err := os.Open(p.at(p.binary()))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// DryRun says what Apply would write.
func (i *Installation) DryRun() error {
	changes := 0
	for _, f := range i.files {
		differs, err := i.differs(f)
		if err != nil {
			return err
		}
		if differs {
			changes++
			i.say("would %s %s", map[bool]string{true: "remove", false: "write"}[f.gone], f.path)
		}
	}
	if !i.in.SkipLinks {
		for _, name := range i.missingLinks() {
			changes++
			i.say("would link %s to %s", i.link(name), i.binary())
		}
	}
	if changes == 0 {
		i.say("would write nothing")
	}
	return nil
}

// Apply installs the service, or says that nothing changed. It is safe to do again after any failure.
func (i *Installation) Apply(ctx context.Context) error {
	if err := i.checkBinary(); err != nil {
		return err
	}
	// Of a run that was cut short, or asked not to restart.
	i.restarting = exists(i.at(i.mark))
	if changed, _ := i.changedSettings(ctx, i.running, i.init.kind); len(changed) > 0 {
		i.say("changed since the service was started: %s", strings.Join(changed, ", "))
		if err := i.changing(); err != nil {
			return err
		}
	}
	if err := i.remember(ctx); err != nil {
		return err
	}
	written := false
	if !i.in.SkipLinks {
		written = i.putLinks()
	}
	for _, f := range i.files {
		differs, err := i.put(f)
		if err != nil {
			return err
		}
		written = written || differs
	}
	if err := i.leaveOldBinDir(); err != nil {
		return err
	}
	if i.init.kind == None {
		i.sayNoService(written)
		return nil
	}
	next, err := i.start(ctx)
	if err != nil {
		return err
	}
	i.say("settings: %s; remove with: %s", i.envFile, i.uninstallScript(i.BinDir))
	if next != "" {
		next += ", then "
	}
	i.say("next: %s%s kubectl --kubeconfig %s/admin.kubeconfig get namespaces", next, i.binary(), i.dataDir)
	return nil
}

// put writes a file if it differs. A running service has to be restarted for it, unless it is quiet.
func (i *Installation) put(f file) (written bool, err error) {
	differs, err := i.differs(f)
	if err != nil {
		return false, err
	}
	if !differs {
		if f.gone {
			return false, nil
		}
		return false, os.Chmod(i.at(f.path), f.mode)
	}
	if !f.quiet {
		if err := i.changing(); err != nil {
			return false, err
		}
	}
	if f.gone {
		return true, i.remove(f.path)
	}
	return true, i.write(f)
}

// changing is called before a change that a running service has to be restarted for. The mark outlives a run that was
// cut short or asked not to restart, so that the next one does; a boot clears it, and starts the service anew anyway.
func (i *Installation) changing() error {
	if i.restarting {
		return nil
	}
	i.restarting = true
	if !i.init.running {
		return nil
	}
	if err := os.WriteFile(i.at(i.mark), nil, 0o600); err != nil {
		return fmt.Errorf("marking that a restart is needed: %w; nothing was changed", err)
	}
	return nil
}

// leaveOldBinDir removes the uninstall script of a service that has moved.
func (i *Installation) leaveOldBinDir() error {
	if i.oldBinDir == "" || i.oldBinDir == i.BinDir {
		return nil
	}
	err := i.remove(i.uninstallScript(i.oldBinDir))
	i.say("moved from %s to %s; what is left to remove by hand: %s/reap, and links to it", i.oldBinDir, i.BinDir, i.oldBinDir)
	if errors.Is(err, os.ErrPermission) || isReadOnly(err) {
		return nil // it is there to be removed by hand like the rest
	}
	return err
}

func (i *Installation) sayNoService(written bool) {
	if !written {
		i.say("nothing changed")
	}
	if i.User == 0 {
		i.say("no service: neither systemd nor OpenRC is here to run it")
	} else {
		i.say("no service: that would need root")
	}
	i.say("remove reap with: %s", i.uninstallScript(i.BinDir))
	with := ""
	if len(i.arguments) > 0 {
		with = ", with your arguments"
	}
	i.say("next, start it by hand: %s server%s; it prints where its kubeconfig is", i.binary(), with)
}
