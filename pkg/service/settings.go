// Package service makes reap a service of the machine's init system, takes it away again, and says how it is: what
// `reap service` does and install.sh hands over once it has placed the binary.
//
// Every change begins with a plan: Plan finds all that can be wrong and changes nothing. Files are written whole or
// not at all, in an order that leaves a service that starts if it is cut short. A service is restarted only if
// something that it runs with has changed.
//
// The definition of a service (systemd's unit, OpenRC's script) also records what it was made from: the arguments,
// quoted for a shell, and the binary's checksum. The script reap-uninstall.sh records what belongs to the
// installation. Both have the form that install.sh has always written, so what it installed is found here.
package service

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The init systems.
const (
	Systemd = "systemd"
	OpenRC  = "openrc"
	None    = "none" // no service: the binary alone
)

const (
	defaultName       = "reap"
	defaultSystemdDir = "/etc/systemd/system"
	settingsDir       = "/etc/reap"
)

// Settings say which service is meant and what it should be like.
type Settings struct {
	// Name is that of the service: reap if empty, and reap-NAME for another one beside it.
	Name string
	// Root is put before every path, for images that are being built.
	Root string
	// BinDir holds the binary, called reap.
	BinDir string
	// SystemdDir is where systemd's unit goes; if empty where it is, or /etc/systemd/system.
	SystemdDir string
	// User is the ID of the user who asks.
	User int
	// Digests returns a digest of each setting of a server, as its ready file has them. Nil compares none.
	Digests func(Server) (map[string]string, error)
	// Out is told what is done.
	Out io.Writer
	// Stdout and Stderr are those of the init system's commands.
	Stdout, Stderr io.Writer
}

// A Server is `reap server` as a service starts it.
type Server struct {
	Arguments []string
	// Environment holds the variables that the environment file sets, as NAME=value.
	Environment []string
	// Root is put before the paths of its files.
	Root string
	// Running is the data directory of the service that this one takes the place of, with the root before it; "" if none runs.
	Running string
	// Starts means that it is started at once, so that its port has to be free.
	Starts bool
}

// Install is what Plan needs besides.
type Install struct {
	// Arguments are those of `reap server`; without any an installed service keeps its own. "server" alone means none.
	Arguments []string
	// Environment is searched for REAP_ variables, which go into the service's environment file.
	Environment []string
	// Path lists the directories in which commands are looked for, as $PATH does.
	Path string
	// Check returns the error with which the server would refuse to start. Nil checks nothing.
	Check func(Server) error
	// DefaultDataDir is where the server keeps its data if nothing says otherwise; /var/lib/reap if empty.
	DefaultDataDir string
	// Hash is the binary's SHA-256. If it is empty the binary is read.
	Hash string
	// BinDirMade means that BinDir was made for the binary, and goes with it.
	BinDirMade bool
	// SkipLinks, SkipEnable and SkipStart leave these steps out.
	SkipLinks, SkipEnable, SkipStart bool
	// Wait bounds the wait for a server under OpenRC. systemd's unit has a limit of its own.
	Wait time.Duration
}

// place is where everything of a service is. Paths are without the root.
type place struct {
	Settings
	service    string // reap or reap-NAME
	unit       string
	rcScript   string
	envFile    string
	mark       string // there while a change waits for a restart
	systemdSet bool   // the unit's directory was given, now or when the service was installed
}

// locate checks the settings that say where a service is.
func locate(s Settings) (place, error) {
	p := place{Settings: s, systemdSet: s.SystemdDir != ""}
	if p.SystemdDir == "" {
		p.SystemdDir = defaultSystemdDir
	}
	p.Root = strings.TrimSuffix(p.Root, "/")
	for _, given := range []struct{ flag, path string }{{"--bin-dir", p.BinDir}, {"--systemd-dir", p.SystemdDir}, {"--root", p.Root + "/"}} {
		if strings.ContainsFunc(given.path, func(r rune) bool { return !plain(r, "_./@+-") }) {
			return p, fmt.Errorf("%s %q: no spaces or special characters, please: init systems trip over them", given.flag, given.path)
		}
		if !strings.HasPrefix(given.path, "/") {
			return p, fmt.Errorf("%s %q is not an absolute path", given.flag, given.path)
		}
		// What is put below a root stays there.
		if given.flag != "--root" && slices.Contains(strings.Split(given.path, "/"), "..") {
			return p, fmt.Errorf("%s %q: no .. in it, please", given.flag, given.path)
		}
	}
	if p.BinDir != "/" {
		p.BinDir = strings.TrimSuffix(p.BinDir, "/")
	}
	var err error
	if p.service, err = serviceName(s.Name); err != nil {
		return p, err
	}
	p.unit = p.SystemdDir + "/" + p.service + ".service"
	p.rcScript = "/etc/init.d/" + p.service
	p.envFile = settingsDir + "/" + p.service + ".env"
	p.mark = "/run/" + p.service + "-install.pending"
	return p, nil
}

// longestName leaves room in a file's name for what is put before and after a service's.
const longestName = 100

func serviceName(name string) (string, error) {
	if len(name) > longestName {
		return "", fmt.Errorf("--name has %d characters, and may have %d", len(name), longestName)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !plain(r, "_-") }) {
		return "", errors.New("--name may hold letters, digits, - and _ only")
	}
	switch {
	case name == "" || name == defaultName:
		return defaultName, nil
	case strings.HasPrefix(name, defaultName+"-"):
		return name, nil
	}
	return defaultName + "-" + name, nil
}

// at is where a path is while the root is somewhere else.
func (p place) at(path string) string { return p.Root + path }

func (p place) binary() string { return filepath.Join(p.BinDir, "reap") }

func (p place) uninstallScript(dir string) string {
	return filepath.Join(dir, p.service+"-uninstall.sh")
}

// say tells what is done. Its lines are told apart from those of the init system's commands.
func (p place) say(format string, args ...any) {
	fmt.Fprintf(p.Out, "[reap] "+format+"\n", args...)
}
