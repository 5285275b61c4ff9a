package service

import (
	"cmp"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

const defaultConfig = "/etc/reap/config.yaml"

// dataDir returns the data directory that an argument or the environment file names.
func dataDir(arguments []string, environment string) string {
	if dir, given := flagIn(arguments, "--data-dir"); given {
		return dir
	}
	return setting(environment, "REAP_DATA_DIR")
}

// configFile returns the configuration file that an argument or the environment file names; "" if none is to be read.
func configFile(arguments []string, environment string) string {
	if config, given := flagIn(arguments, "--config"); given {
		return config
	}
	return cmp.Or(setting(environment, "REAP_CONFIG"), defaultConfig)
}

// configured is what this package reads of configuration files.
type configured struct {
	DataDir string `yaml:"data-dir"`
	Port    string `yaml:"https-listen-port"`
}

// readConfig returns what a configuration file and those beside it say, of which the last one counts.
func (p place) readConfig(config string) (last configured, err error) {
	if config == "" {
		return last, nil
	}
	further, err := filepath.Glob(p.at(config) + ".d/*.yaml")
	if err != nil {
		return last, fmt.Errorf("--config %.100q: %w", config, err)
	}
	for _, path := range append([]string{p.at(config)}, further...) {
		if !isFile(path) {
			continue
		}
		text, err := readOptional(path)
		if err != nil {
			return last, err
		}
		var file configured
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			return last, fmt.Errorf("reading %s: %w", path, err)
		}
		last.DataDir, last.Port = cmp.Or(file.DataDir, last.DataDir), cmp.Or(file.Port, last.Port)
	}
	return last, nil
}
