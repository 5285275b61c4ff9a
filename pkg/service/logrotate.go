package service

import (
	"path/filepath"
	"strings"
)

// ownRotation begins a file of logrotate's that an installation has written. An administrator may have a file of that name.
const ownRotation = "# Written by install.sh"

func (p place) rotationFile() string { return "/etc/logrotate.d/" + p.service }

// logFile is where OpenRC's supervisor writes what the server logs.
func (p place) logFile() string { return "/var/log/" + p.service + ".log" }

// logRotation returns the file with which logrotate keeps the log of OpenRC's service small; ok is false if there is one that
// no installation has written. logrotate itself need not be installed: see docs/install.md.
func (p place) logRotation() (f file, ok bool, err error) {
	there, err := readOptional(p.at(p.rotationFile()))
	if err != nil || there != "" && !strings.HasPrefix(there, ownRotation) {
		return file{}, false, err
	}
	content := render("reap.logrotate.tmpl", map[string]string{"Service": p.service})
	return file{path: p.rotationFile(), content: content, mode: 0o644, quiet: true}, true, nil
}

// removeLogs removes the log, what logrotate has made of it, and the file that tells it to.
func (p place) removeLogs() error {
	if _, ok, err := p.logRotation(); err == nil && ok {
		if err := p.remove(p.rotationFile()); err != nil {
			return err
		}
	}
	rotated, _ := filepath.Glob(p.at(p.logFile()) + ".[1-9]*") // the pattern is good
	for _, path := range rotated {
		if err := p.remove(strings.TrimPrefix(path, p.Root)); err != nil {
			return err
		}
	}
	return p.remove(p.logFile())
}
