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

// configuredDataDir returns the data directory that a configuration file and those beside it name, of which the last one
// counts.
func (p place) configuredDataDir(config string) (string, error) {
	if config == "" {
		return "", nil
	}
	further, err := filepath.Glob(p.at(config) + ".d/*.yaml")
	if err != nil {
		return "", fmt.Errorf("--config %.100q: %w", config, err)
	}
	dir := ""
	for _, path := range append([]string{p.at(config)}, further...) {
		if !isFile(path) {
			continue
		}
		text, err := readOptional(path)
		if err != nil {
			return "", err
		}
		var file struct {
			DataDir string `yaml:"data-dir"`
		}
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		if file.DataDir != "" {
			dir = file.DataDir
		}
	}
	return dir, nil
}
