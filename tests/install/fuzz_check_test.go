package install

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkError wants one line, which names a setting or what it holds, and which a terminal shows as it is.
func (c call) checkError(t *testing.T, out []byte) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "[reap] ") || strings.HasPrefix(line, "[reap] error: ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "[reap] error: ") && !strings.HasPrefix(lines[0], "reap: ") {
		t.Errorf("expected one clear error, and got %.1000q", lines)
		return
	}
	line := lines[0]
	if len(line) > 6<<10 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("an error of %d bytes that nobody can read: %.1000q", len(line), line)
	}
	var names []string
	for _, name := range c.given {
		names = append(names, name)
		if value := c.environment[name]; len(value) > 1 {
			names = append(names, value)
		}
	}
	asArgument := func(name string) bool {
		return slices.Contains([]string{"INSTALL_REAP_EXEC", "REAP_DATA_DIR", "REAP_CONFIG"}, name)
	}
	if len(c.arguments) > 0 || slices.ContainsFunc(c.given, asArgument) {
		names = append(names, "argument", "--data-dir", "--config")
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
		t.Errorf("an error that names no setting: %.1000q", line)
	}
}

// checkInstalled wants the files of the service and no others, in them what was asked for, and nothing left once it is
// removed.
func (c call) checkInstalled(t *testing.T, before, after map[string]string) {
	t.Helper()
	image := filepath.Clean(c.environment["INSTALL_REAP_ROOT"])
	in := func(name, usual string) string {
		if given := c.environment[name]; given != "" {
			return filepath.Join(image, given)
		}
		return filepath.Join(image, usual)
	}
	service := "reap"
	if name := c.environment["INSTALL_REAP_NAME"]; strings.HasPrefix(name, "reap-") {
		service = name
	} else if name != "" && name != "reap" {
		service = "reap-" + name
	}
	bin := in("INSTALL_REAP_BIN_DIR", "/usr/local/bin")
	unit := filepath.Join(in("INSTALL_REAP_SYSTEMD_DIR", "/etc/systemd/system"), service+".service")
	rcScript := filepath.Join(image, "/etc/init.d", service)
	environment := filepath.Join(image, "/etc/reap", service+".env")
	uninstaller := filepath.Join(bin, service+"-uninstall.sh")
	own := []string{
		filepath.Join(bin, "reap"), filepath.Join(bin, "kubectl"), filepath.Join(bin, "kubectl-reap"), filepath.Join(bin, "kubectl_complete-reap"),
		uninstaller, unit, rcScript, environment, filepath.Join(image, "/run", service+"-install.pending"),
		filepath.Join(image, "/etc/logrotate.d", service),
		filepath.Join(image, "/usr/local/bin", service+"-uninstall.sh"), // of a service that has moved
		filepath.Join(image, "/etc/systemd/system", service+".service"), // of one whose unit has
	}
	for _, path := range difference(before, after) {
		if strings.HasPrefix(after[path], "d") && slices.ContainsFunc(own, func(file string) bool { return strings.HasPrefix(file, path+"/") }) {
			continue
		}
		if !slices.Contains(own, path) {
			t.Errorf("it wrote %q: %.200q", path, after[path])
		}
	}
	for line := range strings.Lines(c.calls(t)) {
		words := strings.Fields(line)
		first := c.kind&withService != 0 && slices.Contains(words, "reap.service") // the service that was there
		if words[len(words)-1] != service+".service" && words[0] != "daemon-reload" && !first {
			t.Errorf("it called systemctl %q", line)
		}
	}
	binary := []byte(strings.TrimPrefix(after[own[0]], "-rwxr-xr-x "))
	if !slices.ContainsFunc(c.releases, func(release []byte) bool { return bytes.Equal(release, binary) }) {
		t.Errorf("%s is %.200q", own[0], after[own[0]])
	}

	if arguments, given := c.wanted(); given {
		c.checkDefinition(t, after[unit], after[rcScript], after[environment], image, service, arguments)
	}

	if c.kind&withService != 0 {
		return
	}
	if out, err := c.run(t, uninstaller); err != nil {
		t.Errorf("removing it: %v\n%s", err, out)
	}
	for path, text := range c.tree(t) {
		if _, there := before[path]; !there && !strings.HasPrefix(text, "d") {
			t.Errorf("%q is left of it: %.200q", path, text)
		}
	}
}

// wanted are the arguments that the service is to have, if that can be told.
func (c call) wanted() (arguments []string, given bool) {
	blank := func(r rune) bool { return strings.ContainsRune(" \t\n", r) }
	arguments = append(strings.FieldsFunc(c.environment["INSTALL_REAP_EXEC"], blank), c.arguments...)
	if len(arguments) == 0 && c.kind&withService != 0 {
		return nil, false // it keeps those that it has
	}
	if len(arguments) > 0 && arguments[0] == "server" {
		arguments = arguments[1:]
	}
	return arguments, true
}

// checkDefinition wants a service with these arguments, and with the variables that were given: as a shell reads them, which
// is how OpenRC does. systemd reads a file's lines, of which there are to be as many as in any unit.
func (c call) checkDefinition(t *testing.T, unit, rcScript, environment, image, service string, arguments []string) {
	t.Helper()
	script := `for word; do printf '%s\0' "$word"; done`
	switch {
	case unit != "":
		lines := strings.FieldsFunc(strings.TrimSpace(unit), func(r rune) bool { return r == '\n' || r == '\r' || r == 0 })
		commands := 0
		for _, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "Exec") {
				commands++
			}
			if len(line) > 1<<20 {
				t.Errorf("systemd takes no line of %d bytes", len(line))
			}
		}
		if commands != 1 || len(lines) != unitLines || !utf8.ValidString(unit) {
			t.Errorf("a unit of %d lines with %d commands: %.2000q", len(lines), commands, unit)
		}
		_, recorded, _ := strings.Cut(unit, "# arguments: ")
		recorded, _, _ = strings.Cut(recorded, "\n")
		script = "set -- " + recorded + "\n" + script
	case rcScript != "":
		var lines []string
		for line := range strings.Lines(rcScript) {
			if strings.HasPrefix(line, "[ ! -f /etc/reap/") {
				line = strings.ReplaceAll(line, "/etc/reap/", image+"/etc/reap/")
			}
			lines = append(lines, line)
		}
		script = strings.Join(lines[1:], "") + "eval \"set -- $command_args\"\nshift\n" + script
	default:
		return // no service
	}
	got := c.ask(t, script)
	// A second service has a data directory and a port of its own, and no configuration file.
	for _, own := range []string{"--config=", "--data-dir=/var/lib/" + service, "--https-listen-port=6444"} {
		if service != "reap" && len(got) > len(arguments) && got[0] == own {
			got = got[1:]
		}
	}
	if !slices.Equal(got, arguments) {
		t.Errorf("the service has the arguments %.1000q, want %.1000q", got, arguments)
	}
	_, environment, _ = strings.Cut(environment, " ") // the mode
	if strings.ContainsFunc(environment, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) || !utf8.ValidString(environment) {
		t.Errorf("systemd drops variables of %.1000q", environment)
	}
	for name, value := range c.environment {
		if !strings.HasPrefix(name, "REAP_") {
			continue
		}
		if got := c.ask(t, environment+"\nprintf '%s\\0' \"$"+name+"\""); !slices.Equal(got, []string{value}) {
			t.Errorf("the service has %s=%.1000q, want %.1000q", name, got, value)
		}
	}
}

// unitLines is how many lines a unit has that are not empty.
const unitLines = 39

// ask returns what a shell makes of a script, as words that each end with a NUL.
func (c call) ask(t *testing.T, script string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.sh)
	cmd.Dir = c.here
	cmd.Env = []string{"PATH=" + c.tools[0] + ":" + c.commands}
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("a shell fails with what was written: %v: %.1000q", err, out)
	}
	if _, err := os.Stat(c.canary()); err == nil {
		t.Error("what a setting contains runs with the service")
	}
	return strings.Split(string(out), "\x00")[:bytes.Count(out, []byte{0})]
}
