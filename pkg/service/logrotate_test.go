package service

import (
	"os"
	"strings"
	"testing"
)

// TestLogOfOpenRCIsRotated, with a file that goes with the service and is no reason to restart it.
func TestLogOfOpenRCIsRotated(t *testing.T) {
	s, _ := machine(t, OpenRC)
	mustInstall(t, s, Install{})
	if got := get(t, s, "/etc/logrotate.d/reap"); !strings.Contains(got, "\n/var/log/reap.log {\n") || !strings.Contains(got, "\tcopytruncate\n") {
		t.Errorf("it holds %s", got)
	}
	i, err := Plan(t.Context(), s, Install{Hash: hash})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range i.files {
		if f.path == i.rotationFile() && (!f.quiet || f.mode != 0o644) {
			t.Errorf("got %+v", f)
		}
	}
	for _, log := range []string{"reap.log", "reap.log.1", "reap.log.2.gz"} {
		put(t, s, "/var/log/"+log, "", 0o644)
	}
	put(t, s, "/var/log/reap.logs", "another's", 0o644)
	uninstall(t, s)
	for _, gone := range []string{"/etc/logrotate.d/reap", "/var/log/reap.log", "/var/log/reap.log.1", "/var/log/reap.log.2.gz"} {
		if _, err := os.Lstat(s.Root + gone); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", gone, err)
		}
	}
	if got := get(t, s, "/var/log/reap.logs"); got != "another's" {
		t.Errorf("a file that is not its own holds %q", got)
	}
}

// TestRotationOfTheAdministratorsStays, whatever the service does.
func TestRotationOfTheAdministratorsStays(t *testing.T) {
	const own = "/var/log/reap.log {\n\tdaily\n\tcopytruncate\n}\n"
	s, _ := machine(t, OpenRC)
	put(t, s, "/etc/logrotate.d/reap", own, 0o644)
	mustInstall(t, s, Install{})
	if got := get(t, s, "/etc/logrotate.d/reap"); got != own {
		t.Errorf("after the installation it holds %q", got)
	}
	uninstall(t, s)
	if got := get(t, s, "/etc/logrotate.d/reap"); got != own {
		t.Errorf("after the removal it holds %q", got)
	}
}

// TestSystemdNeedsNoRotation: the journal keeps its own size.
func TestSystemdNeedsNoRotation(t *testing.T) {
	s, _ := machine(t, Systemd)
	mustInstall(t, s, Install{})
	if _, err := os.Lstat(s.Root + "/etc/logrotate.d/reap"); !os.IsNotExist(err) {
		t.Errorf("there is one (%v)", err)
	}
}

func uninstall(t *testing.T, s Settings) {
	t.Helper()
	u, err := PlanUninstall(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Apply(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}
