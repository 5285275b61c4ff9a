package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestDataDirIsTheInstalledServices, unless the command line or the environment says which one is meant.
func TestDataDirIsTheInstalledServices(t *testing.T) {
	const none = "/default"
	one := []Service{{"reap", "/etc/systemd/system/reap.service", "/srv/x"}}
	only := []Service{{"reap-b", "/etc/init.d/reap-b", "/srv/b"}}
	two := append(only, Service{"reap-c", "/etc/init.d/reap-c", "/srv/c"})
	for _, tc := range []struct {
		name     string
		services []Service
		failing  error
		args     []string
		env      map[string]string
		file     string
		want     string
		err      string
	}{
		{name: "no service", want: none},
		{name: "service", services: one, want: "/srv/x"},
		{name: "service with the file's", services: one, file: "data-dir: /srv/x\n", want: "/srv/x"},
		{name: "two answers", services: one, file: "log-level: info\ndata-dir: /y\n",
			err: "the service reap (/etc/systemd/system/reap.service) keeps its data in /srv/x, and --data-dir is /y from FILE:2: name one with --data-dir"},
		{name: "flag", services: one, args: []string{"--data-dir=/z"}, file: "data-dir: /y\n", want: "/z"},
		{name: "environment", services: one, env: map[string]string{"REAP_DATA_DIR": "/z"}, file: "data-dir: /y\n", want: "/z"},
		{name: "configuration that is named", services: one, args: []string{"--config=FILE"}, file: "data-dir: /y\n", want: "/y"},
		{name: "configuration that is named and names none", services: one, env: map[string]string{"REAP_CONFIG": "FILE"}, file: "log-level: info\n", want: none},
		{name: "the first of several", services: append(two, one...), want: "/srv/x"},
		{name: "another one alone", services: only, want: "/srv/b"},
		{name: "several and no first", services: two, err: "reap-b in /srv/b, reap-c in /srv/c: name one with --data-dir"},
		{name: "service that cannot be read", failing: errors.New("no"), err: "looking for this machine's service: no; name its data directory with --data-dir"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if tc.file != "" {
				if err := os.WriteFile(file, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			flags, client := ClientFlags(func() ([]Service, error) { return tc.services, tc.failing })
			client.dataDir, client.loader.configFile = none, file
			client.loader.environment = environment{}
			for name, value := range tc.env {
				client.loader.environment[name] = strings.ReplaceAll(value, "FILE", file)
			}
			var got string
			var err error
			app := &cli.App{Flags: flags, Action: func(*cli.Context) error {
				got, err = client.DataDir()
				return nil
			}}
			args := []string{"reap"}
			for _, a := range tc.args {
				args = append(args, strings.ReplaceAll(a, "FILE", file))
			}
			if err := app.Run(args); err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(tc.err, "FILE", file)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && got != tc.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, want)
			}
		})
	}
}

// TestStoreOfAServiceIsInItsDirectory: configuration files and the environment are about another server then.
func TestStoreOfAServiceIsInItsDirectory(t *testing.T) {
	for _, service := range []string{"/srv/x", ""} {
		services := func() ([]Service, error) { return []Service{{"reap", "/etc/init.d/reap", service}}, nil }
		want := Store{DataDir: service}
		if service == "" {
			services, want = nil, Store{"/default", "postgres://a/b"}
		}
		c, s := newClient(services, categoryStorage, dataDirUsage)
		c.dataDir, c.loader.configFile = "/default", filepath.Join(t.TempDir(), "config.yaml")
		c.loader.environment = environment{"REAP_DATASTORE_ENDPOINT": "postgres://a/b"}
		if store, err := c.store(s); err != nil || store != want {
			t.Errorf("got %+v, want %+v (%v)", store, want, err)
		}
	}
}
