package install

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var variable = regexp.MustCompile(`^(?:INSTALL_)?REAP_[A-Z0-9_]*=`)

// A call is one run of install.sh.
type call struct {
	*bench
	kind           uint8
	root, commands string
	environment    map[string]string
	given          []string // the variables that are not the test's own
	arguments      []string
}

// canary is a file that is there if anything has run that a setting contains.
func (c call) canary() string { return c.commands + "/canary-ran" }

// try installs on a machine of a kind, and says what is wrong.
func (b *bench) try(t *testing.T, kind uint8, settings []string) {
	// Not t.TempDir, which has the name of the input in it.
	dir, err := os.MkdirTemp(b.dir, "machine")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	root := filepath.Join(dir, nested, "root")
	c := call{bench: b, kind: kind, root: root, commands: filepath.Join(dir, "commands"), environment: map[string]string{
		"INSTALL_REAP_ROOT": root, "INSTALL_REAP_BASE_URL": b.site,
	}}
	expand := strings.NewReplacer("{root}", root, "{site}", b.site, "{url}", b.url, "{here}", b.here)
	for _, s := range settings {
		s = expand.Replace(s)
		if name, value, _ := strings.Cut(s, "="); variable.MatchString(s) {
			c.environment[name] = value
			c.given = append(c.given, name)
		} else {
			c.arguments = append(c.arguments, s)
		}
	}
	if !c.mayBeTried() {
		t.Skip("it might write to this machine, or ask others")
	}
	c.makeMachine(t)
	if kind&withService != 0 {
		first := c
		first.environment = map[string]string{
			"INSTALL_REAP_ROOT": root, "INSTALL_REAP_BASE_URL": b.site, "INSTALL_REAP_VERSION": "v1", "REAP_LOG_LEVEL": "debug",
		}
		if out, err := first.run(t, b.script, "--disable=gc"); err != nil {
			t.Fatalf("installing first: %v\n%s", err, out)
		}
	}
	before, callsBefore := c.tree(t), c.calls(t)
	out, err := c.run(t, b.script, c.arguments...)
	after := c.tree(t)
	defer func() {
		if t.Failed() {
			t.Logf("kind %d, settings %.2000q, arguments %.2000q, error %v, output:\n%.2000s", kind, c.environment, c.arguments, err, out)
		}
	}()
	if _, err := os.Stat(c.canary()); err == nil {
		t.Error("what a setting contains was run")
	}
	switch {
	case err != nil:
		if changed := difference(before, after); len(changed) > 0 {
			t.Errorf("in spite of the error it changed %q", changed)
		}
		if calls := c.calls(t); calls != callsBefore {
			t.Errorf("in spite of the error it called systemctl: %q", calls)
		}
		c.checkError(t, out)
	case len(c.arguments) > 0 && (c.arguments[0] == "-h" || c.arguments[0] == "--help"):
		if changed := difference(before, after); len(changed) > 0 {
			t.Errorf("help changed %q", changed)
		}
	default:
		c.checkInstalled(t, before, after)
	}
}

// mayBeTried reports whether all that it can write to is the test's, and all that it can ask is on this machine. The
// checks of install.sh are what is tested, so they are not relied upon.
func (c call) mayBeTried() bool {
	all := strings.Join(slices.Collect(maps.Values(c.environment)), " ") + strings.Join(c.arguments, " ")
	if strings.Count(all, "..") > strings.Count(nested, "/") || len(all) > 1<<20 || strings.Contains(all, "\x00") {
		return false
	}
	for _, text := range append(slices.Collect(maps.Values(c.environment)), c.arguments...) {
		if len(text) > 120<<10 { // Linux takes no longer one
			return false
		}
	}
	image := c.environment["INSTALL_REAP_ROOT"]
	if strings.Trim(image, "/") == "" || image[0] == '/' && image != c.root && !strings.HasPrefix(image, c.root+"/") {
		return false
	}
	base := c.environment["INSTALL_REAP_BASE_URL"]
	if base == "" {
		return false // the project's own page
	}
	base = strings.TrimPrefix(base, "file://")
	return !strings.HasPrefix(base, "http") || base == c.url || strings.HasPrefix(base, c.url+"/")
}

// run runs a script on the machine.
func (c call) run(t *testing.T, script string, arguments ...string) (out []byte, err error) {
	t.Helper()
	i := 0
	if c.kind&withBusybox != 0 {
		i = 1
	}
	command := slices.Concat(c.shells[i], []string{script}, arguments)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = c.here
	cmd.Env = []string{"PATH=" + c.tools[i] + ":" + c.commands, "HOME=" + c.here, "TMPDIR=" + c.here}
	for name, value := range c.environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err = cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out, err
}

// tree returns all that install.sh could write to: for each path the mode, and the content or the target.
func (c call) tree(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	see := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == c.commands {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		all[path] = text
		return nil
	}
	machine := strings.TrimSuffix(c.root, "/"+nested+"/root")
	for _, dir := range []string{machine, c.here, c.site} {
		if err := filepath.WalkDir(dir, see); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func difference(before, after map[string]string) (changed []string) {
	for path, text := range before {
		if now, there := after[path]; !there || now != text {
			changed = append(changed, path)
		}
	}
	for path := range after {
		if _, there := before[path]; !there {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed
}

// calls are those of systemctl that change something.
func (c call) calls(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.commands, "calls"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(raw)
}
