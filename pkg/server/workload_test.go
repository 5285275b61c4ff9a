package server

import (
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
)

// TestEveryControllerCanBeDisabled compares the tables of two packages that do not import each other.
func TestEveryControllerCanBeDisabled(t *testing.T) {
	for _, name := range controllers.Names() {
		if !(config.Server{Disable: []string{"controllers"}}).Disabled(name) {
			t.Errorf("--disable=controllers leaves %s running", name)
		}
		s := config.DefaultServer()
		s.DataDir, s.Disable = t.TempDir(), []string{name}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
