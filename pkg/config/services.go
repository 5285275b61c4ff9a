package config

import (
	"fmt"
	"strings"
)

// Service is a service of reap on this machine.
type Service struct {
	// Name is the service's, and Definition the file that makes it one.
	Name, Definition string
	// DataDir is where its server keeps its data.
	DataDir string
}

// Services returns the services that are installed on this machine and that the caller may look at. Nil stands for none.
type Services func() ([]Service, error)

// firstService is the name of the service that has no name of its own.
const firstService = "reap"

// this returns the service that a command is about which names none: the first one, or the only one. It returns nil without any.
func (s Services) this() (*Service, error) {
	if s == nil {
		return nil, nil
	}
	all, err := s()
	if err != nil {
		return nil, fmt.Errorf("looking for this machine's service: %w; name its data directory with --%s", err, dataDirName)
	}
	var names []string
	for i := range all {
		if all[i].Name == firstService || len(all) == 1 {
			return &all[i], nil
		}
		names = append(names, fmt.Sprintf("%s in %s", all[i].Name, all[i].DataDir))
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("several services keep their data on this machine, %s: name one with --%s", strings.Join(names, ", "), dataDirName)
	}
	return nil, nil
}
