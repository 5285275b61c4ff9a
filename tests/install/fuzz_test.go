package install

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
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
		{"--snapshot-dir", "/srv/it's $(canary) \"`canary`\" \\ %h $HOME ~ * ;canary", "REAP_SNAPSHOT_DIR=/srv/it's $(canary) \"`canary`\" \\ %h $HOME ~ * ;canary", "REAP_GC_IGNORE="},
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
		{"REAP_SNAPSHOT_DIR=/a\nREAP_DISABLE=gc"},
		{"REAP_SNAPSHOT_DIR=/a\rREAP_DISABLE=gc"},
		{"REAP_SNAPSHOT_DIR=/\xff"},
		{"REAP_SNAPSHOT_DIR=/\x7f"},
		{"REAP_TLS_SANS=a"},
		{"INSTALL_REAP_VERSON=v1"},
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
