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

// TestUnknownVariablesAreRefused: a setting that is misspelt is no setting that is taken silently.
func TestUnknownVariablesAreRefused(t *testing.T) {
	for variable, want := range map[string]string{
		"REAP_TLS_SANS=a":                 "unknown variable REAP_TLS_SANS in the environment (did you mean REAP_TLS_SAN?)",
		"REAP_LOGLEVEL=debug":             "unknown variable REAP_LOGLEVEL in the environment (did you mean REAP_LOG_LEVEL?)",
		"REAP_tls_san=a":                  "unknown variable REAP_tls_san in the environment (did you mean REAP_TLS_SAN?)",
		"REAP_CONIFG=/x":                  "did you mean REAP_CONFIG?",
		"REAP_PORT=6444":                  "unknown variable REAP_PORT in the environment: ",
		"REAP_HTTPS_PORT=6444":            "unknown variable REAP_HTTPS_PORT in the environment: ",
		"REAP_=x":                         "unknown variable REAP_ in the environment: ",
		"REAP_TLS_SAN=a":                  "",
		"REAP_CONFIG=":                    "",
		"REAP_UNUSED=":                    "", // as a template leaves it
		"REAPER=x":                        "",
		"REAP_BINARY=/bin/reap":           "",
		"REAP_TEST_SIZE=long":             "",
		"REAP_SERVICE_HOST=x":             "", // of Kubernetes, for a Service called reap
		"REAP_SERVICE_PORT=443":           "",
		"REAP_SERVICE_PORT_API=443":       "",
		"REAP_PORT=tcp://10.0.0.1:443":    "",
		"REAP_PORT_443_TCP=tcp://x:443":   "",
		"REAP_PORT_443_TCP_PROTO=tcp":     "",
		"REAP_PORT_443_TCP_ADDR=10.0.0.1": "",
		"REAP_EDGE_1_SERVICE_HOST=x":      "", // reap-edge-1
		"REAP_EDGE_1_PORT=tcp://x:443":    "",
	} {
		_, load := ServerFlagsElsewhere([]string{"REAP_DATA_DIR=/srv", "HOME=/root", variable}, t.TempDir())
		_, err := load()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", variable, err, want)
		}
	}
}

// TestServerVariables are what an installer hands on: all that a server would take or refuse.
func TestServerVariables(t *testing.T) {
	got := ServerVariables([]string{"PATH=/bin", "REAP_TLS_SAN=a=b", "REAP_TLS_SANS=a", "REAP_PORT=tcp://x", "REAP_BINARY=x", "INSTALL_REAP_NAME=x", "REAP_X="})
	if want := []string{"REAP_TLS_SAN=a=b", "REAP_TLS_SANS=a", "REAP_X="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDigestsTellOptionsApart: each option's digest changes with its value, and no other's does.
func TestDigestsTellOptionsApart(t *testing.T) {
	before := DefaultServer().Digests()
	for name, values := range twoValues {
		for _, value := range values {
			s, _, err := load(t, layers{args: []string{"--" + name + "=" + value}})
			if err != nil {
				t.Fatal(err)
			}
			s2, _, err := load(t, layers{args: []string{"--" + name + "=" + value}})
			if err != nil {
				t.Fatal(err)
			}
			var differs []string
			after, again := s.Digests(), s2.Digests()
			for option := range before {
				if option != dataDirName && after[option] != before[option] {
					differs = append(differs, option)
				}
				if after[option] != again[option] {
					t.Errorf("--%s is not the same twice", option)
				}
			}
			if name == dataDirName {
				continue // the harness has a directory of its own
			}
			if len(differs) > 1 || len(differs) == 1 && differs[0] != name {
				t.Errorf("--%s=%s changes %q", name, value, differs)
			}
			if len(differs) == 0 && value != values[1] {
				t.Errorf("--%s=%s changes nothing", name, value)
			}
		}
	}
}
