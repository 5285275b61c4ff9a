package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Kinds of machine that FuzzInstall installs on: bits of its first argument.
const (
	withSystemd = 1 << iota // a systemd that runs; without it and withOpenRC there is no init system
	withOpenRC              // an OpenRC that does not run, as in an image that is being built
	withBusybox             // busybox alone in place of the machine's own tools
	withService             // there is a service already
	kinds
)

// nested is put between a machine and the directory that the test may write to, so that .. in a path leads to what the
// test sees. A setting with more .. than that is not tried: the machine of whoever runs the test is not to be written to.
const nested = "1/2/3/4/5/6/7/8/9"

// FuzzInstall runs install.sh on a machine, in a directory, with a list of settings, separated by NULs: NAME=value is a
// variable of the environment, all else is an argument. In them, {root}, {site}, {url} and {here} stand for the machine's
// directory, that of the releases, their web server, and the current directory. A seed other than 0 adds more settings,
// and puts what is special to shells, paths, init systems or terminals into the values.
//
// Nothing that a setting contains may run, and nothing may be written but the files of the service. Otherwise install.sh
// ends with one line that names a setting, and has changed nothing; or the service has just the arguments and variables
// that were given, and goes away without a trace.
func FuzzInstall(f *testing.F) {
	if os.Getuid() != 0 {
		f.Skip("needs root: without it no service is installed")
	}
	b := newBench(f)
	for i, settings := range [][]string{
		{"--snapshot-dir", "/srv/it's $(canary) \"`canary`\" \\ %h $HOME ~ * ;canary", "REAP_X=it's $(canary) \"`canary`\" \\ %h $HOME ~ * ;canary", "REAP_Y="},
		{"INSTALL_REAP_EXEC=--snapshot-dir $(canary) --snapshot-dir=`canary` --snapshot-dir='a --snapshot-dir *\t\n--log-level=debug", "--snapshot-dir", "--help"},
		{"INSTALL_REAP_EXEC=server", "INSTALL_REAP_NAME=bench", "INSTALL_REAP_VERSION=v1", "INSTALL_REAP_SYSTEMD_DIR=/usr/lib/systemd/system"},
		{"server", "--disable=gc", "INSTALL_REAP_BIN_DIR=/", "INSTALL_REAP_SYMLINK=skip"},
		{"--", "--disable=gc", "INSTALL_REAP_ROOT={root}/image", "INSTALL_REAP_SKIP_START=true"},
		{"gc; canary"},
		{"server", ""},
		{"--help", "$(canary)"},
		{"--tls-san=a\nExecStartPre=/bin/canary"},
		{"--tls-san=a\rExecStartPre=/bin/canary\r"},
		{"--tls-san=\xff"},
		{"--tls-san=\x1b[2J"},
		{"--tls-san=" + strings.Repeat("'", 100<<10), strings.Repeat("'", 100<<10), strings.Repeat("'", 100<<10)},
		{strings.Repeat("x", 10<<10)},
		{"--data-dir=" + strings.Repeat("x", 10<<10)},
		{"--config=[" + strings.Repeat("x", 10<<10)},
		{"REAP_X=a\nREAP_Y=b"},
		{"REAP_X=a\rREAP_Y=b"},
		{"REAP_X=\xff"},
		{"REAP_X=\x7f"},
		{"REAP_DATA_DIR=relative"},
		{"REAP_DATA_DIR=/../../$(canary)"},
		{"INSTALL_REAP_VERSION=v1;canary"},
		{"INSTALL_REAP_VERSION=v1\ncanary"},
		{"INSTALL_REAP_VERSION=../site/v1"},
		{"INSTALL_REAP_VERSION=.."},
		{"INSTALL_REAP_VERSION=-v"},
		{"INSTALL_REAP_VERSION=" + strings.Repeat("9", 10<<10)},
		{"INSTALL_REAP_NAME=$(canary)"},
		{"INSTALL_REAP_NAME=../x"},
		{"INSTALL_REAP_NAME=" + strings.Repeat("x", 250)},
		{"INSTALL_REAP_BASE_URL={site}/v1"},
		{"INSTALL_REAP_BASE_URL=file://{site}"},
		{"INSTALL_REAP_BASE_URL=file:///"},
		{"INSTALL_REAP_BASE_URL=/"},
		{"INSTALL_REAP_BASE_URL={url}"},
		{"INSTALL_REAP_BASE_URL={url}/[1-9]$(canary)"},
		{"INSTALL_REAP_BASE_URL={site}/v1/$(canary)"},
		{"INSTALL_REAP_BASE_URL={site}\n[reap] error: another"},
		{"INSTALL_REAP_BASE_URL={site}/" + strings.Repeat("x", 10<<10)},
		{"INSTALL_REAP_BASE_URL=" + odd[0]},
		{"INSTALL_REAP_BASE_URL=" + odd[1]},
		{"INSTALL_REAP_BASE_URL=-t.tar.gz"},
		{"INSTALL_REAP_BASE_URL=canary:x.tar.gz"},
		{"INSTALL_REAP_BASE_URL=hostile.tar.gz"},
		{"INSTALL_REAP_BIN_DIR=/opt/new/bin", "INSTALL_REAP_VERSION=v3"},
		{"INSTALL_REAP_BIN_DIR=/../bin"},
		{"INSTALL_REAP_BIN_DIR=/opt/../../../etc"},
		{"INSTALL_REAP_BIN_DIR=relative"},
		{"INSTALL_REAP_BIN_DIR=/opt/$(canary)"},
		{"INSTALL_REAP_BIN_DIR=/opt/a/" + strings.Repeat("x", 300)},
		{"INSTALL_REAP_BIN_DIR=" + strings.Repeat("/x", 5000)},
		{"INSTALL_REAP_BIN_DIR=/usr/file"},
		{"INSTALL_REAP_SYSTEMD_DIR=/../units"},
		{"INSTALL_REAP_SYSTEMD_DIR=/usr/file/units"},
		{"INSTALL_REAP_SYSTEMD_DIR=/" + strings.Repeat("x", 300)},
		{"INSTALL_REAP_SYSTEMD_DIR=/units\n"},
		{"INSTALL_REAP_ROOT={root}/image", "INSTALL_REAP_VERSION=v3"},
		{"INSTALL_REAP_ROOT={root}/$(canary)"},
		{"INSTALL_REAP_ROOT={root}/usr/file"},
		{"INSTALL_REAP_ROOT=relative"},
		{"INSTALL_REAP_SYMLINK=$(canary)"},
		{"INSTALL_REAP_FORCE=x} canary ${y"},
		{"INSTALL_REAP_SKIP_ENABLE=" + strings.Repeat("x", 10<<10)},
		{"INSTALL_REAP_SKIP_DOWNLOAD=true"},
	} {
		machines := []uint8{withSystemd, withOpenRC | withBusybox}
		// Both programs that unpack, copy and download have such a setting.
		if all := strings.Join(settings, "\x00"); strings.HasPrefix(all, "INSTALL_REAP_BASE_URL") {
			f.Add(machines[0], all, uint64(0))
			f.Add(machines[1], all, uint64(0))
		} else {
			f.Add(machines[i%2], all, uint64(0))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, settings string, seed uint64) {
		t.Parallel()
		var list []string
		if settings != "" {
			list = strings.Split(settings, "\x00")
		}
		if seed != 0 {
			list = vary(rand.New(rand.NewPCG(seed, 0)), list)
		}
		b.try(t, kind%kinds, list)
	})
}

// odd are names of directories that hold releases, below the current directory.
var odd = []string{"-t", "a b $(canary) * `canary`", "canary:y"}

// fragments mean something to a shell, a path, an init system, a terminal or a command.
var fragments = []string{
	" ", "\t", "\n", "\r", "'", `"`, "`canary`", "$(canary)", "${IFS}", "$HOME", ";canary;", "|canary", "&canary&", "\ncanary\n", ">canary", "<",
	"*", "?", "[", "]", "{a,b}", "~", "#", "!", `\`, "%s", "%h", "$$", "-", "--", "-o", "=", "..", "../", "/../", "/", "//",
	"./", ":", "@", ",", "\x01", "\x1b[2J", "\x7f", "\xff", "é", "\u2028", "true", "server", "v1", "reap", "{site}", "{root}", "\rExecStartPre=/bin/canary\r", "\n[reap] error: another",
	strings.Repeat("A", 300), strings.Repeat("/a", 700),
}

// usual are settings as somebody might have them.
var usual = []string{
	"INSTALL_REAP_VERSION=v1", "INSTALL_REAP_VERSION=v3", "INSTALL_REAP_VERSION=latest", "INSTALL_REAP_FORCE=true", "INSTALL_REAP_BASE_URL={site}",
	"INSTALL_REAP_BASE_URL={site}/v1", "INSTALL_REAP_BASE_URL=file://{site}", "INSTALL_REAP_BASE_URL={url}", "INSTALL_REAP_BASE_URL=" + odd[0],
	"INSTALL_REAP_BASE_URL={here}/t.tar.gz", "INSTALL_REAP_BIN_DIR=/opt/bin", "INSTALL_REAP_BIN_DIR=/", "INSTALL_REAP_EXEC=--disable=gc --tls-san x",
	"INSTALL_REAP_EXEC=server", "INSTALL_REAP_NAME=bench", "INSTALL_REAP_SYSTEMD_DIR=/usr/lib/systemd/system", "INSTALL_REAP_SYMLINK=skip",
	"INSTALL_REAP_SKIP_DOWNLOAD=true", "INSTALL_REAP_SKIP_ENABLE=true", "INSTALL_REAP_SKIP_START=false", "INSTALL_REAP_ROOT={root}/image",
	"REAP_LOG_LEVEL=debug", "REAP_DATA_DIR=/srv/reap", "REAP_CONFIG=/etc/reap/other.yaml", "server", "--disable=gc", "--tls-san", "--data-dir=/srv/reap", "--snapshot-dir=/srv/snapshots",
	"--config=/etc/reap/other.yaml",
}

// vary adds usual settings, and puts fragments into their values.
func vary(r *rand.Rand, settings []string) []string {
	for range r.IntN(4) {
		settings = append(slices.Clone(settings), usual[r.IntN(len(usual))])
	}
	for i := range settings {
		for range r.IntN(3) {
			after := strings.IndexByte(settings[i], '=') + 1
			at := after + r.IntN(len(settings[i])-after+1)
			settings[i] = settings[i][:at] + fragments[r.IntN(len(fragments))] + settings[i][at:]
		}
	}
	return settings
}

// A bench is what the machines of one process share: the tools, the releases and the current directory.
type bench struct {
	dir      string
	tools    [2]string // directories for $PATH: of the machine's own tools, and of busybox
	shells   [2][]string
	sh       string
	site     string
	here     string
	url      string
	releases [][]byte // the binaries
	script   string
}

// madeUp is a release, which hands `reap service` to the program that is tested, but for its help, which is asked for
// before each installation and takes as long as the rest.
const madeUp = `#!%s
case "$*" in
"service install --help") exec cat %s ;;
"service uninstall --help") exec cat %s ;;
"service "*) exec %s "$@" ;;
esac
echo 'reap version %s (commit 1234567, built unknown)'
`

func newBench(f *testing.F) *bench {
	f.Helper()
	arch, ok := map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armv7"}[runtime.GOARCH]
	if !ok {
		f.Skipf("no reap for %s", runtime.GOARCH)
	}
	b := &bench{dir: f.TempDir()}
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	find := func(command string) string {
		f.Helper()
		path, err := exec.LookPath(command)
		if err != nil {
			f.Skip(err)
		}
		return path
	}
	b.sh = find("sh")
	busybox := find("busybox")
	b.shells = [2][]string{{b.sh}, {busybox, "sh"}}
	for i, further := range []string{"curl getconf", "wget"} {
		b.tools[i] = filepath.Join(b.dir, fmt.Sprintf("tools%d", i))
		must(os.Mkdir(b.tools[i], 0o755))
		tools := "awk cat chmod cp dirname gzip head id ls mkdir mktemp mv rm rmdir sed sha256sum sync tar tr uname " + further
		for _, tool := range strings.Fields(tools) {
			target := busybox
			if i == 0 {
				target = find(tool)
			}
			must(os.Symlink(target, filepath.Join(b.tools[i], tool)))
		}
	}
	var err error
	b.script, err = filepath.Abs("../../install.sh")
	must(err)

	// The releases, in a directory for each version, and two archives.
	program := os.Getenv("REAP_BINARY")
	if program == "" {
		f.Fatal("$REAP_BINARY names no binary: run this with ./scripts/test tests/install")
	}
	help := map[string]string{}
	for _, command := range []string{"install", "uninstall"} {
		out, err := exec.Command(program, "service", command, "--help").Output()
		must(err)
		help[command] = filepath.Join(b.dir, command+".help")
		must(os.WriteFile(help[command], out, 0o644))
	}
	asset := "reap-linux-" + arch
	b.site = filepath.Join(b.dir, nested, "site")
	b.here = filepath.Join(b.dir, nested, "here")
	must(os.MkdirAll(b.here, 0o755))
	var sums []byte // of the last
	for _, version := range []string{"v1", "v2", "latest"} {
		release := fmt.Appendf(nil, madeUp, b.sh, help["install"], help["uninstall"], program, strings.Replace(version, "latest", "v2", 1))
		sums = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(release), asset)
		dir := filepath.Join(b.site, version)
		must(os.MkdirAll(dir, 0o755))
		must(os.WriteFile(filepath.Join(dir, asset), release, 0o755))
		must(os.WriteFile(filepath.Join(dir, "sha256sums.txt"), sums, 0o644))
		b.releases = append(b.releases, release)
	}
	for _, name := range odd {
		must(os.Symlink(b.site, filepath.Join(b.here, name)))
	}
	for archive, top := range map[string]string{
		"t.tar.gz": "reap/", "-t.tar.gz": "reap/", "canary:x.tar.gz": "reap/",
		// GNU tar has this option, and would run the program.
		"hostile.tar.gz": "--to-command=canary;/",
	} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		w := tar.NewWriter(z)
		for name, content := range map[string][]byte{asset: b.releases[2], "sha256sums.txt": sums} {
			must(w.WriteHeader(&tar.Header{Name: top + name, Mode: 0o755, Size: int64(len(content))}))
			_, err := w.Write(content)
			must(err)
		}
		must(errors.Join(w.Close(), z.Close()))
		must(os.WriteFile(filepath.Join(b.here, archive), packed.Bytes(), 0o644))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(b.site)))
	f.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// systemctl keeps the state of services in files beside itself, and lists there what it was told to change.
const systemctl = `#!%s
state=${0%%/*}
for unit; do :; done
case $* in
"is-active --quiet "* | "is-enabled --quiet "*) [ -e "$state/$1.$unit" ]; exit ;;
"start "* | "restart "*) : >"$state/is-active.$unit" ;;
"enable "* | "reenable "*) : >"$state/is-enabled.$unit" ;;
"disable "*) rm -f "$state/is-active.$unit" "$state/is-enabled.$unit" ;;
esac
echo "$*" >>"$state/calls"
`

// makeMachine fills a machine's root directory, and that of its init system's commands.
func (c call) makeMachine(t *testing.T) {
	t.Helper()
	for _, dir := range []string{c.root + "/usr/local/bin", c.root + "/run", c.root + "/sbin", c.root + "/../outside", c.commands} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{c.root + "/usr/file": "", c.commands + "/canary": fmt.Sprintf("#!%s\n: >%s\n", c.sh, c.canary())}
	switch {
	case c.kind&withSystemd != 0:
		if err := os.MkdirAll(c.root+"/run/systemd/system", 0o755); err != nil {
			t.Fatal(err)
		}
		files[c.commands+"/systemctl"] = fmt.Sprintf(systemctl, c.sh)
	case c.kind&withOpenRC != 0:
		files[c.root+"/sbin/openrc-run"] = ""
	}
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

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
			"INSTALL_REAP_ROOT": root, "INSTALL_REAP_BASE_URL": b.site, "INSTALL_REAP_VERSION": "v1", "REAP_OLD": "1",
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
	// A second service has a data directory of its own.
	if own := "--data-dir=/var/lib/" + service; service != "reap" && len(got) > len(arguments) && got[0] == own {
		got = got[1:]
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
