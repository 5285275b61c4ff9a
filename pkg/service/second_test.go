package service

import (
	"slices"
	"strings"
	"testing"
)

// TestSecondServiceIsBesideTheFirst: it has a data directory and a port of its own, and reads no file of the first one's.
func TestSecondServiceIsBesideTheFirst(t *testing.T) {
	for _, tc := range []struct {
		name        string
		arguments   []string
		environment string
		file        string // /etc/reap/x.yaml
		want        []string
	}{
		{name: "as the help shows it", want: []string{"--config=", "--data-dir=/var/lib/reap-x", "--https-listen-port=6445"}},
		{name: "port", arguments: []string{"--https-listen-port", "7443"}, want: []string{"--config=", "--data-dir=/var/lib/reap-x", "--https-listen-port", "7443"}},
		{name: "environment", environment: "REAP_HTTPS_LISTEN_PORT=7443\nREAP_DATA_DIR=/srv\n", want: []string{"--config="}},
		{name: "file", arguments: []string{"--config=/etc/reap/x.yaml"}, file: "https-listen-port: 7443\ndata-dir: /srv\n", want: []string{"--config=/etc/reap/x.yaml"}},
		{name: "file without a port", arguments: []string{"--config=/etc/reap/x.yaml"}, file: "data-dir: /srv\n", want: []string{"--https-listen-port=6445", "--config=/etc/reap/x.yaml"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, out := machine(t, OpenRC)
			put(t, s, "/etc/reap/config.yaml", "https-listen-port: 7000\ndata-dir: /of/the/first\n", 0o644)
			mustInstall(t, s, Install{Hash: hash})
			other := s
			other.Name = "other"
			mustInstall(t, other, Install{Hash: hash}) // has 6444
			s.Name = "x"
			if tc.environment != "" {
				put(t, s, "/etc/reap/reap-x.env", tc.environment, 0o600)
			}
			if tc.file != "" {
				put(t, s, "/etc/reap/x.yaml", tc.file, 0o644)
			}
			out.Reset()
			i, err := Plan(t.Context(), s, Install{Hash: hash, Arguments: tc.arguments})
			if err != nil || !slices.Equal(i.arguments, tc.want) {
				t.Fatalf("its arguments are %q, want %q (%v)", i.arguments, tc.want, err)
			}
			if slices.Contains(tc.want, "--https-listen-port=6445") && !strings.Contains(out.String(), "listens on port 6445") {
				t.Errorf("it says %s", out)
			}
			if err := i.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Once more it is the same.
			i, err = Plan(t.Context(), s, Install{Hash: hash})
			if err != nil || !slices.Equal(i.arguments, tc.want) {
				t.Errorf("then its arguments are %q (%v)", i.arguments, err)
			}
		})
	}
}

// TestSecondServiceOfAnOlderInstallerKeepsItsArguments, and with them the configuration file that it reads.
func TestSecondServiceOfAnOlderInstallerKeepsItsArguments(t *testing.T) {
	s, _ := machine(t, OpenRC)
	s.Name = "x"
	put(t, s, "/etc/init.d/reap-x", "# arguments: '--data-dir=/var/lib/reap-x' '--https-listen-port=7443'\n# binary: x\n", 0o755)
	i, err := Plan(t.Context(), s, Install{Hash: hash})
	if want := []string{"--data-dir=/var/lib/reap-x", "--https-listen-port=7443"}; err != nil || !slices.Equal(i.arguments, want) {
		t.Errorf("its arguments are %q, want %q (%v)", i.arguments, want, err)
	}
}

// TestInstalledServicesSayWhereTheirDataIs.
func TestInstalledServicesSayWhereTheirDataIs(t *testing.T) {
	s, _ := machine(t, Systemd)
	if all, err := InstalledServices(s.Root); err != nil || len(all) > 0 {
		t.Errorf("found are %+v (%v)", all, err)
	}
	put(t, s, "/etc/systemd/system/reap-other.service", "[Service]\nExecStart=/opt/other\n", 0o644) // another program's
	put(t, s, "/etc/reap/config.yaml", "data-dir: /srv/file\n", 0o644)
	mustInstall(t, s, Install{Hash: hash})
	second := s
	second.Name, second.SystemdDir = "x", "/usr/lib/systemd/system"
	mustInstall(t, second, Install{Hash: hash, Environment: []string{"REAP_DATA_DIR=/srv/environment"}})
	third := s
	third.Name = "y"
	mustInstall(t, third, Install{Hash: hash, Arguments: []string{"--data-dir=/srv/argument"}, Environment: []string{"REAP_DATA_DIR=/srv/environment"}})
	got, err := InstalledServices(s.Root)
	want := []Installed{
		{"reap", "/etc/systemd/system/reap.service", "/srv/file"},
		{"reap-x", "/usr/lib/systemd/system/reap-x.service", "/srv/environment"},
		{"reap-y", "/etc/systemd/system/reap-y.service", "/srv/argument"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found are %+v, want %+v (%v)", got, want, err)
	}
}
