package cli

import (
	"os"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/service"
)

// installedServices returns this machine's services, for root: their data is root's, and another user's server is that user's own.
func installedServices() ([]config.Service, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	installed, err := service.InstalledServices("")
	if err != nil {
		return nil, err
	}
	all := make([]config.Service, len(installed))
	for i, s := range installed {
		all[i] = config.Service{Name: s.Service, Definition: s.Definition, DataDir: s.DataDir}
	}
	return all, nil
}
