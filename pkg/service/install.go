package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// An Installation is a service as it should be. Until Apply nothing is changed.
type Installation struct {
	place
	in         Install
	init       initSystem
	arguments  []string
	dataDir    string
	files      []file // in the order in which they are written
	oldBinDir  string // where the binary of the installed service is
	restarting bool   // something that the service runs with has changed
}

// Plan finds out what an installation consists of, and all that is wrong with its settings.
func Plan(s Settings, in Install) (*Installation, error) {
	p, err := locate(s)
	if err != nil {
		return nil, err
	}
	i := &Installation{place: p, in: in, init: initSystem{kind: None}}
	if p.User == 0 {
		i.init = p.findInit()
	}
	if i.in.Hash == "" {
		if i.in.Hash, err = p.hash(); err != nil {
			return nil, err
		}
	}
	definition, environment := "", ""
	if i.init.kind != None {
		if definition, err = readOptional(p.at(p.definition(i.init.kind))); err != nil {
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
	if err := i.findDataDir(environment); err != nil {
		return nil, err
	}
	r := record{
		init: i.init.kind, hash: i.in.Hash, binDirMade: in.BinDirMade, unit: p.unit, rcScript: p.rcScript, envFile: p.envFile, dataDir: i.dataDir,
	}
	if old, err := p.readRecord(); err == nil {
		r.binDirMade = r.binDirMade || old.binDirMade
	}
	if i.init.kind != None {
		i.files = append(i.files,
			file{path: p.envFile, content: environment, mode: 0o600},
			p.serviceDefinition(i.init.kind, i.in.Hash, i.dataDir, i.arguments))
	}
	i.files = append(i.files, p.script(r))
	for _, f := range i.files {
		if err := p.checkPlace(f); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// findDataDir sets the data directory, and names it among the arguments of a second service.
func (i *Installation) findDataDir(environment string) (err error) {
	i.dataDir = dataDir(i.arguments, environment)
	switch {
	case i.dataDir != "":
	case i.service != defaultName:
		// Two services on one data directory would shut each other out.
		i.dataDir = "/var/lib/" + i.service
		i.arguments = slices.Insert(slices.Clone(i.arguments), 0, "--data-dir="+i.dataDir)
	default:
		if i.dataDir, err = i.configuredDataDir(i.arguments, environment); err != nil {
			return err
		}
		if i.dataDir == "" {
			i.dataDir = i.in.DefaultDataDir
		}
		if i.dataDir == "" {
			i.dataDir = "/var/lib/" + defaultName
		}
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
			i.say("would write %s", f.path)
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
		return false, os.Chmod(i.at(f.path), f.mode)
	}
	if !f.quiet {
		if err := i.changing(); err != nil {
			return false, err
		}
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
