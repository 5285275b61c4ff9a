package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestServerFromEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("gc-workers: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REAP_CONFIG", file)
	t.Setenv("REAP_DATA_DIR", "relative")
	t.Setenv("REAP_DISABLE", "gc,controllers")
	t.Setenv("REAP_LOG_LEVEL", "debug")
	s, err := ServerFromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Disable, []string{"gc", "controllers"}) || s.Log.Level != "debug" {
		t.Errorf("got %q and %q from the environment", s.Disable, s.Log.Level)
	}
	if s.GC.Workers != 0 || s.DataDir != DefaultServer().DataDir {
		t.Errorf("got %d workers and %q: neither a file nor other options have a say", s.GC.Workers, s.DataDir)
	}

	t.Setenv("REAP_DISABLE", "gcc")
	if _, err := ServerFromEnvironment(); err == nil || !strings.Contains(err.Error(), "--disable (from $REAP_DISABLE): ") {
		t.Errorf("got the error %v", err)
	}
}
