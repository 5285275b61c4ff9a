package apiserver

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/server/options"
)

func TestCommandLinesThatStartNothing(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--help"}, ErrHelp.Error()},
		{[]string{"--secure-port=1", "-h"}, ErrHelp.Error()},
		{[]string{"--version"}, ErrVersion.Error()},
		{[]string{"--version=raw"}, ErrVersion.Error()},
		{[]string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		{[]string{"--insecure-port=0"}, "unknown flag: --insecure-port"}, // as kube-apiserver since 1.24
		{[]string{"--secure-port=x"}, `invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax`},
		{[]string{"server"}, `kube-apiserver takes no arguments, only flags, and got "server"`},
	} {
		if _, err := ParseCommandLine(tc.args); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got the error %v, want %q", tc.args, err, tc.want)
		}
	}
	if _, err := ParseCommandLine([]string{"--help"}); !errors.Is(err, ErrHelp) {
		t.Errorf("got %v", err)
	}
}

// TestCommandLineWins over the defaults of reap, also for flags that add to a list, and with underscores in their names.
func TestCommandLineWins(t *testing.T) {
	parsed := func(without bool, args ...string) *options.AdmissionOptions {
		t.Helper()
		line, err := ParseCommandLine(args)
		if err != nil {
			t.Fatal(err)
		}
		line.WithoutControllers = without
		s, err := runOptions(Options{CommandLine: line})
		if err != nil {
			t.Fatal(err)
		}
		if want := !slices.Contains(args, "--watch_cache=true"); s.Etcd.EnableWatchCache == want {
			t.Errorf("%q: the watch cache is on: %t", args, s.Etcd.EnableWatchCache)
		}
		return s.Admission.GenericAdmission
	}
	const protection = "StorageObjectInUseProtection"
	envtests := "--disable-admission-plugins=ServiceAccount"
	if got := parsed(false, envtests, "--watch_cache=true").DisablePlugins; !slices.Contains(got, protection) || got[0] != "ServiceAccount" {
		t.Errorf("disabled: %q", got)
	}
	if got := parsed(false, envtests, "--enable-admission-plugins="+protection).DisablePlugins; slices.Contains(got, protection) {
		t.Errorf("disabled although the command line enables it: %q", got)
	}
	if got := parsed(true, envtests).DisablePlugins; !slices.Equal(got, []string{"ServiceAccount"}) {
		t.Errorf("disabled without controllers: %q", got)
	}
}

func TestCommandLineAndTheLog(t *testing.T) {
	line, err := ParseCommandLine([]string{"-v=4", "--logging-format=json"})
	if err != nil {
		t.Fatal(err)
	}
	if line.Verbosity() != 4 || !line.JSONLog() {
		t.Errorf("got %d and %t", line.Verbosity(), line.JSONLog())
	}
}
