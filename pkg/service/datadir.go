package service

import (
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

// configuredDataDir returns the data directory that the configuration files name, of which the last one counts.
func (p place) configuredDataDir(arguments []string, environment string) (string, error) {
	config, given := flagIn(arguments, "--config")
	if !given {
		if config = setting(environment, "REAP_CONFIG"); config == "" {
			config = defaultConfig
		}
	}
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
