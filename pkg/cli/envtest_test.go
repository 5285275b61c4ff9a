package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	kubernetes "k8s.io/component-base/version"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
)

func TestEnvtestUseIsUnderstoodOrNothingIsMade(t *testing.T) {
	t.Chdir(t.TempDir())
	version := strings.TrimPrefix(kubernetes.Get().GitVersion, "v")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"a", "b"}, "reap: reap envtest use takes one version or folder, and got \"b\" too; see 'reap envtest use --help'\n"},
		{[]string{"1.37.x", "a"}, "reap: reap envtest use takes one version or folder, and got \"a\" too; see 'reap envtest use --help'\n"},
		{[]string{"a", "--bin-dir", "b"}, "reap: --bin-dir and the folder \"a\" are two folders: give one of them; see 'reap envtest use --help'\n"},
		{[]string{"1.31.x!", "--bin-dir", "b", "-p", "path"}, "reap: this reap is Kubernetes " + version + ", which \"1.31.x!\" does not select: " +
			"use setup-envtest for another version, or a release of reap that has it\n"},
		{[]string{"v1.37.1"}, "reap: \"v1.37.1\" is no version: give X.Y.Z, X.Y or X.Y.x, with ~, < or <= before it if need be, or latest; " +
			"a folder of this name is ./v1.37.1\n"},
		{[]string{"-p", "pth"}, "reap: --print has to be overview, path or env, not \"pth\" (did you mean path?)\n"},
		{[]string{"-o", "json", "-p", "path"}, "reap: --print is for text: leave it out with --output json\n"},
		{[]string{"-o", "yaml"}, "reap: --output has to be text or json, not \"yaml\"\n"},
	} {
		cache := filepath.Join(t.TempDir(), "cache")
		got := reap(t, []string{"XDG_CACHE_HOME=" + cache}, append([]string{"envtest", "use"}, tc.args...)...)
		if want := (result{exitUsage, "", tc.want}); got != want {
			t.Errorf("%q: got %+v\nwant %+v", tc.args, got, want)
		}
		if _, err := os.Stat(cache); !os.IsNotExist(err) {
			t.Errorf("%q: something was made (%v)", tc.args, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("made %v (%v)", made, err)
	}
}

// TestEnvtestUseTakesTheLinesOfMakefiles: what setup-envtest takes, and where it would put the folder.
func TestEnvtestUseTakesTheLinesOfMakefiles(t *testing.T) {
	parts := regexp.MustCompile(`^v?((\d+\.\d+)\.\d+)`).FindStringSubmatch(kubernetes.Get().GitVersion)
	if parts == nil {
		t.Fatalf("the version is %s", kubernetes.Get().GitVersion)
	}
	full, minor := parts[1], parts[2]
	cache := filepath.Join(t.TempDir(), "cache")
	environ := []string{"XDG_CACHE_HOME=" + cache}
	usual := filepath.Join(cache, "reap", "envtest")
	for _, tc := range []struct{ args, dir string }{
		{minor + ".x --bin-dir BIN -p path", ""},
		{minor + " --bin-dir=BIN -p path", ""},
		{"-i -p path --bin-dir BIN " + full, ""},
		{"--installed-only --print path latest --bin-dir BIN", ""},
		{"--bin-dir BIN -p path", ""},
		{minor + ".x! -i -p path", usual},
		{"latest -p path", usual},
		{"<=" + full + " -p path --bin-dir=", usual},
	} {
		bin := filepath.Join(t.TempDir(), "bin")
		dir := tc.dir
		if dir == "" {
			dir = filepath.Join(bin, "k8s", full+"-"+runtime.GOOS+"-"+runtime.GOARCH)
		}
		got := reap(t, environ, append([]string{"envtest", "use"}, strings.Fields(strings.ReplaceAll(tc.args, "BIN", bin))...)...)
		if got != (result{exitOK, dir, ""}) {
			t.Errorf("%s: got %+v\nwant %s", tc.args, got, dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
			t.Errorf("%s: %v", tc.args, err)
		}
	}
}

func TestEnvtestUseMakesTheFolder(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "reap", "envtest")
	got := reap(t, []string{"XDG_CACHE_HOME=" + cache}, "envtest", "use")
	if want := (result{exitOK, "export KUBEBUILDER_ASSETS='" + dir + "'\n", ""}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		t.Error(err)
	}

	others := t.TempDir()
	writeFile(t, filepath.Join(others, "etcd"), "#!/bin/sh\n")
	got = reap(t, nil, "envtest", "use", others)
	want := "reap: " + filepath.Join(others, "etcd") + " exists and is not reap: name another folder, 'reap envtest use DIR' or --bin-dir\n"
	if got != (result{exitRun, "", want}) {
		t.Errorf("got %+v\nwant %q", got, want)
	}
}

// TestCalledByTheNamesOfEnvtestsPrograms: the help is what envtest looks for flags in.
func TestCalledByTheNamesOfEnvtestsPrograms(t *testing.T) {
	for _, tc := range []struct {
		name, arg string
		code      int
		stdout    string // a pattern
		stderr    string
	}{
		{"etcd", "--help", 0, `(?m)^\s*--unsafe-no-fsync\b`, `^Usage:\n`},
		{"/assets/etcd", "--version", 0, `^etcd Version: 3\.`, `^$`},
		{"etcd", "--no-such-flag", 2, `^$`, `^flag provided but not defined: -no-such-flag\n`},
		{"kube-apiserver", "--help", 0, `(?m)^\s*--etcd-servers\b`, `^$`},
		{"/assets/kube-apiserver", "--version", 0, `^Kubernetes v1\.\d+\.\d+.*\n$`, `^$`},
		{"kube-apiserver", "--no-such-flag", exitUsage, `^$`, `^kube-apiserver: unknown flag: --no-such-flag\n$`},
	} {
		got := called(t, tc.name, nil, tc.arg).withoutRaceNote()
		if got.code != tc.code || !regexp.MustCompile(tc.stdout).MatchString(got.stdout) || !regexp.MustCompile(tc.stderr).MatchString(got.stderr) {
			t.Errorf("%s %s: code %d, stdout %.300q, stderr %.300q", tc.name, tc.arg, got.code, got.stdout, got.stderr)
		}
	}
	if got := called(t, "kube-apiserver", nil, "--help"); regexp.MustCompile(`(?m)^\s*--insecure-port\b`).MatchString(got.stdout) {
		t.Error("kube-apiserver has a flag that envtest would set then, and that Kubernetes has not had for years")
	}
	got := called(t, "kube-apiserver", []string{"REAP_DISABLE=gcc"}, "--etcd-servers=http://127.0.0.1:1")
	if got.code != exitUsage || !strings.HasPrefix(got.stderr, "kube-apiserver: --disable (from $REAP_DISABLE): unknown part \"gcc\"") {
		t.Errorf("got %+v", got)
	}
}

func TestLogOfKubeAPIServer(t *testing.T) {
	for _, tc := range []struct {
		args []string
		from config.Log
		want config.Log
	}{
		{nil, config.Log{Level: "info", Format: "text"}, config.Log{Level: "info", Format: "text"}},
		{[]string{"-v=1"}, config.Log{Level: "info", Format: "text"}, config.Log{Level: "debug", Format: "text"}},
		{[]string{"--v=4"}, config.Log{Level: "error", Format: "text"}, config.Log{Level: "trace", Format: "text"}},
		{[]string{"--v=1"}, config.Log{Level: "trace", Format: "text"}, config.Log{Level: "trace", Format: "text"}},
		{[]string{"--logging-format=json"}, config.Log{Level: "info", Format: "text"}, config.Log{Level: "info", Format: "json"}},
		{[]string{"--logging-format=json"}, config.Log{Level: "info", Format: "logfmt"}, config.Log{Level: "info", Format: "logfmt"}},
	} {
		line, err := apiserver.ParseCommandLine(tc.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := logAsAsked(tc.from, line); got != tc.want {
			t.Errorf("%q with %+v: got %+v, want %+v", tc.args, tc.from, got, tc.want)
		}
	}
}

func TestEtcdElectsItselfQuicklyUnlessToldOtherwise(t *testing.T) {
	start := []string{"--data-dir=/tmp/d"}
	for _, tc := range []struct {
		args, environ []string
		quick         bool
	}{
		{start, []string{"HOME=/root"}, true},
		{nil, nil, false},
		{[]string{"gateway", "start"}, nil, false},
		{[]string{"--data-dir=/tmp/d", "--election-timeout=5000"}, nil, false},
		{[]string{"--data-dir=/tmp/d", "-heartbeat-interval", "500"}, nil, false},
		{start, []string{"ETCD_ELECTION_TIMEOUT=5000"}, false},
		{start, []string{"ETCD_CONFIG_FILE=/etc/etcd.yaml"}, false},
	} {
		got := withQuickElection(tc.args, tc.environ)
		if quick := len(got) > len(tc.args); quick != tc.quick {
			t.Errorf("%q in %q: got %q", tc.args, tc.environ, got)
		}
	}
}
