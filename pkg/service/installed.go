package service

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// An Installed is a service of this machine.
type Installed struct {
	Service string
	// Definition is the file that makes it a service, and DataDir where its server keeps its data.
	Definition, DataDir string
}

// InstalledServices returns the services that Plan has installed, the first one first. It reads their environment files, which are
// root's.
func InstalledServices(root string) ([]Installed, error) {
	p := place{Settings: Settings{Root: strings.TrimSuffix(root, "/")}}
	all, err := p.definitions()
	if err != nil {
		return nil, err
	}
	var installed []Installed
	for _, d := range all {
		dir := dataDir(d.arguments, d.environment)
		if dir == "" {
			file, err := p.readConfig(configFile(d.arguments, d.environment))
			if err != nil {
				return nil, fmt.Errorf("looking where %s keeps its data: %w", d.service, err)
			}
			dir = cmp.Or(file.DataDir, "/var/lib/"+defaultName)
		}
		installed = append(installed, Installed{Service: d.service, Definition: d.path, DataDir: dir})
	}
	return installed, nil
}

// A definition is what makes a service one, with its environment file.
type definition struct {
	service, path string
	arguments     []string
	environment   string
}

// definitions returns those of all installed services, by name.
func (p place) definitions() ([]definition, error) {
	found := map[string]definition{}
	for _, dir := range append(slices.Clone(unitDirs), "/etc/init.d") {
		for _, name := range []string{defaultName, defaultName + "-*"} {
			suffix := ".service"
			if dir == "/etc/init.d" {
				suffix = ""
			}
			paths, err := filepath.Glob(p.at(dir + "/" + name + suffix))
			if err != nil {
				return nil, err
			}
			for _, path := range paths {
				path = strings.TrimPrefix(path, p.Root)
				service := strings.TrimSuffix(filepath.Base(path), suffix)
				if _, there := found[service]; there {
					continue // systemd takes the first, too
				}
				text, err := readOptional(p.at(path))
				if err != nil {
					return nil, err
				}
				if recorded(text, "# binary: ") == "" {
					continue // another program's
				}
				d := definition{service: service, path: path}
				if d.arguments, err = shellSplit(recorded(text, "# arguments: ")); err != nil {
					return nil, fmt.Errorf("reading the arguments in %s: %w", path, err)
				}
				if d.environment, err = readOptional(p.at(settingsDir + "/" + service + ".env")); err != nil {
					return nil, err
				}
				found[service] = d
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b definition) int { return cmp.Compare(a.service, b.service) }), nil
}
