package service

import (
	"slices"
	"strconv"
)

// firstPort is where the first service listens unless it is told otherwise.
const firstPort = 6443

// beSecond sets the data directory of a service beside the first. What the first one reads or holds is not for it: two servers shut each
// other out of one data directory and one port.
func (i *Installation) beSecond(environment string, anew bool) error {
	config := configFile(i.arguments, environment)
	_, given := flagIn(i.arguments, "--config")
	var own []string
	if !given && setting(environment, "REAP_CONFIG") == "" && anew {
		own, config = append(own, "--config="), ""
		i.say("%s does not read %s, which is the first service's: name a file with --config", i.service, defaultConfig)
	}
	var file configured
	if config != defaultConfig {
		var err error
		if file, err = i.readConfig(config); err != nil {
			return err
		}
	}
	if i.dataDir = dataDir(i.arguments, environment); i.dataDir == "" {
		i.dataDir = file.DataDir
	}
	if i.dataDir == "" {
		i.dataDir = "/var/lib/" + i.service
		own = append(own, "--data-dir="+i.dataDir)
	}
	if portOf(i.arguments, environment) == "" && file.Port == "" && anew {
		port, err := i.unusedPort()
		if err != nil {
			return err
		}
		own = append(own, "--https-listen-port="+port)
		i.say("%s listens on port %s: choose another with --https-listen-port", i.service, port)
	}
	i.arguments = slices.Concat(own, i.arguments)
	return nil
}

// portOf returns the port that an argument or the environment file names; "" if neither does.
func portOf(arguments []string, environment string) string {
	if port, given := flagIn(arguments, "--https-listen-port"); given {
		return port
	}
	return setting(environment, "REAP_HTTPS_LISTEN_PORT")
}

// unusedPort returns the first port after the first service's that no other installed service names. Whether a program that is no
// service of reap's has it is found when the server is checked.
func (i *Installation) unusedPort() (string, error) {
	others, err := i.definitions()
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, d := range others {
		if d.service != i.service {
			taken[portOf(d.arguments, d.environment)] = true
		}
	}
	port := firstPort + 1
	for taken[strconv.Itoa(port)] {
		port++
	}
	return strconv.Itoa(port), nil
}
