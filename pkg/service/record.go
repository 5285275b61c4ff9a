package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A record says what belongs to an installation. The uninstall script holds it, as assignments.
type record struct {
	init       string
	hash       string // of the binary
	binDirMade bool
	unit       string
	rcScript   string
	envFile    string
	dataDir    string
}

// script returns the uninstall script with the record.
func (p place) script(r record) file {
	made := ""
	if r.binDirMade {
		made = "yes"
	}
	return file{path: p.uninstallScript(p.BinDir), mode: 0o755, quiet: true, content: render("uninstall.sh.tmpl", map[string]string{
		"Service": p.service, "BinDir": p.BinDir, "BinDirMade": made, "Init": r.init, "Hash": r.hash, "Unit": r.unit, "RCScript": r.rcScript,
		"EnvFile": r.envFile, "DataDir": shellQuote(r.dataDir),
	})}
}

// errNotInstalled is the error for a service that is not there.
type errNotInstalled struct{ service, script string }

func (e errNotInstalled) Error() string {
	return fmt.Sprintf("%s is not installed: there is no %s; --name names another service and --bin-dir the directory of its binary", e.service, e.script)
}

// readRecord reads the record in the uninstall script of the service, also in one that install.sh wrote by itself.
func (p place) readRecord() (r record, err error) {
	path := p.uninstallScript(p.BinDir)
	raw, err := os.ReadFile(p.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return r, errNotInstalled{p.service, path}
	}
	if err != nil {
		return r, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "prefix=") { // the end of the record
			break
		}
		name, value, is := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !is {
			continue
		}
		words, err := shellSplit(value)
		if err != nil || len(words) > 1 {
			continue // a comment
		}
		fields[name] = strings.Join(words, "")
	}
	for _, needed := range []string{"init", "unit", "rc_script", "env_file", "data_dir"} {
		if fields[needed] == "" {
			return r, fmt.Errorf("%s does not say its %s: install reap once more, and uninstall it then; nothing was removed", path, needed)
		}
	}
	return record{
		init: fields["init"], binDirMade: fields["bin_dir_made"] != "", unit: fields["unit"], rcScript: fields["rc_script"],
		envFile: fields["env_file"], dataDir: fields["data_dir"],
	}, nil
}
