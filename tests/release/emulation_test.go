//go:build releasetest

package release

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// emulated is for each thing that is waited for under emulation, which is ten times slower and more on a machine
// with other work.
const emulated = 10 * time.Minute

// command returns how to run a binary on this machine.
func (a architecture) command(t *testing.T) []string {
	t.Helper()
	if a == native(t) {
		return []string{a.binary()}
	}
	if _, err := exec.LookPath(a.emulator); err != nil {
		t.Skipf("%v: it is in Debian's package qemu-user-static", err)
	}
	return []string{a.emulator, a.binary()}
}

// TestVersion runs each binary.
func TestVersion(t *testing.T) {
	form := regexp.MustCompile(`^reap version (\S+) \(commit ([0-9a-f]{40}|unknown), built (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|unknown)\)\n$`)
	for _, a := range architectures {
		t.Run(a.name, func(t *testing.T) {
			command := a.command(t)
			got := output(t, command[0], append(command[1:], "--version")...)
			if found := form.FindStringSubmatch(got); found == nil || found[1] != version(t) {
				t.Errorf("it says %q, of release %s", got, version(t))
			}
			// The version of what is inside, for which the linker's flags are needed too.
			got = output(t, command[0], append(command[1:], "kubectl", "version", "--client")...)
			if !strings.Contains(got, "+reap") {
				t.Errorf("kubectl says %q", got)
			}
		})
	}
}

// Each binary runs as a server, with SQLite, under emulation.
func TestEachBinaryRunsACascade(t *testing.T) {
	for _, a := range architectures {
		t.Run(a.name, func(t *testing.T) {
			start(t, emulated, a.command(t)...).cascade(t, 50)
		})
	}
}
