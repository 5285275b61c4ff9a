package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

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
"show "*) [ ! -e "$state/is-active.$unit" ] || echo MainPID=1; exit ;;
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
