package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// raceNote is what the race detector has Kubernetes' programs say on stderr.
var raceNote = regexp.MustCompile(`(?m)^.*[Dd]ata race detection.*\n`)

func (r result) withoutRaceNote() result {
	r.stderr = raceNote.ReplaceAllString(r.stderr, "")
	return r
}

func TestKubectlGetsEverythingThatFollows(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string // in what kubectl prints, and once
	}{
		{"reap", []string{"kubectl", "--help"}, 0, "kubectl controls the Kubernetes cluster manager."},
		{"reap", []string{"kubectl", "get", "--help"}, 0, "Display one or many resources."},
		{"reap", []string{"kubectl", "-n", "a", "version", "--client", "--output=json"}, 0, `"clientVersion"`},
		{"reap", []string{"kubectl", "nonsense"}, 1, `error: unknown command "nonsense" for "kubectl"`},
		{"reap", []string{"kubectl", "--version"}, 1, "error: unknown flag: --version"},
		{"reap", []string{"kubectl", "diff"}, 2, "error: must specify one of -f and -k"},
		{"reap", []string{"kubectl", "completion", "bash"}, 0, "# bash completion V2 for kubectl"},
		{"reap", []string{"kubectl", "__complete", "vers"}, 0, "version\t"},
		{"kubectl", nil, 0, "kubectl controls the Kubernetes cluster manager."},
		{"/usr/bin/kubectl", []string{"version", "--client"}, 0, "Client Version: "},
		{"kubectl", []string{"server"}, 1, `error: unknown command "server" for "kubectl"`},
		{"kubectl-reap", []string{"--version"}, 0, "reap version "},
		{"reap", []string{"help", "kubectl"}, 0, "reap kubectl [everything that kubectl takes]"},
	} {
		got := called(t, tc.name, nil, tc.args...)
		if got.code != tc.code || strings.Count(got.stdout+got.stderr, tc.want) != 1 {
			t.Errorf("%s %q: code %d, stdout %.300q, stderr %q, want %d and %q", tc.name, tc.args, got.code, got.stdout, got.stderr, tc.code, tc.want)
		}
	}
}

func TestKubectlSpeaksTheLanguageOfTheLocale(t *testing.T) {
	for locale, want := range map[string]string{
		"":            "Display one or many resources",
		"C.UTF-8":     "Display one or many resources",
		"en_US.UTF-8": "Display one or many resources",
		"de_DE.UTF-8": "Zeige eine oder mehrere Resourcen",
	} {
		got := reap(t, []string{"LC_ALL=" + locale, "LC_MESSAGES=", "LANG="}, "kubectl", "--help")
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("LC_ALL=%s: code %d, %.600q, want %q", locale, got.code, got.stdout, want)
		}
	}
}

// TestKubectlHasNoFlagsOfTheServers: what the API server's packages register for every program is not kubectl's.
func TestKubectlHasNoFlagsOfTheServers(t *testing.T) {
	for line := range strings.Lines(reap(t, nil, "kubectl", "options").stdout) {
		if strings.HasPrefix(line, "    --version") {
			t.Errorf("kubectl options: %s", line)
		}
	}
}

func TestKubectlFindsItsServer(t *testing.T) {
	home := t.TempDir()
	path := func(name string) string { return filepath.Join(home, name) }
	for _, name := range []string{"flag", "env", ".kube/config", "local/admin.kubeconfig", "filed/admin.kubeconfig"} {
		writeKubeconfig(t, path(name), "any", strings.ReplaceAll(name, "/", "-"))
	}
	writeFile(t, path("config.yaml"), "data-dir: "+path("filed")+"\n")
	writeFile(t, path("wrong.yaml"), "data-dirr: "+path("filed")+"\n")

	home1, local := "HOME="+home, "REAP_DATA_DIR="+path("local")
	view := []string{"config", "current-context"}
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"reap", []string{home1, local, "KUBECONFIG=" + path("env")}, []string{"--kubeconfig", path("flag")}, "flag"},
		{"reap", []string{home1, local, "KUBECONFIG=" + path("env")}, nil, "env"},
		{"reap", []string{home1, local, "KUBECONFIG="}, nil, "local-admin.kubeconfig"},
		{"reap", []string{home1, local}, []string{"--kubeconfig=" + path("flag")}, "flag"},
		{"reap", []string{home1, "REAP_CONFIG=" + path("config.yaml")}, nil, "filed-admin.kubeconfig"},
		{"reap", []string{home1, "REAP_CONFIG=" + path("config.yaml"), "REAP_DATA_DIR=" + path("none")}, nil, ".kube-config"},
		// What is wrong in reap's configuration is in the way of nobody who does not need it.
		{"reap", []string{home1, "REAP_CONFIG=" + path("wrong.yaml")}, []string{"--kubeconfig=" + path("flag")}, "flag"},
		{"reap", []string{home1, "REAP_CONFIG=" + path("wrong.yaml"), "KUBECONFIG=" + path("env")}, nil, "env"},
		{"kubectl", []string{home1, local, "KUBECONFIG=" + path("env")}, []string{"--kubeconfig", path("flag")}, "flag"},
		{"kubectl", []string{home1, local, "KUBECONFIG=" + path("env")}, nil, "env"},
		{"kubectl", []string{home1, local, "REAP_CONFIG=" + path("wrong.yaml")}, nil, ".kube-config"},
	} {
		args := append(append([]string{}, tc.args...), view...)
		if tc.name == "reap" {
			args = append([]string{"kubectl"}, args...)
		}
		got := called(t, tc.name, tc.env, args...).withoutRaceNote()
		if want := (result{0, tc.want + "\n", ""}); got != want {
			t.Errorf("%s %q with %q: got %+v, want %+v", tc.name, args, tc.env, got, want)
		}
	}

	got := reap(t, []string{home1, "REAP_CONFIG=" + path("wrong.yaml")}, "kubectl", "config", "current-context")
	want := result{exitUsage, "", "reap: looking for this machine's server: " + path("wrong.yaml") +
		":1: unknown option \"data-dirr\" (did you mean \"data-dir\"?); or say which server with --kubeconfig\n"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestKubectlWithoutAServerSaysSoOnce, and what needs none goes on.
func TestKubectlWithoutAServerSaysSoOnce(t *testing.T) {
	home := t.TempDir()
	environ := []string{"HOME=" + home, "XDG_DATA_HOME=", "REAP_DATA_DIR=" + filepath.Join(home, "none"), "KUBECONFIG=", "KUBERNETES_MASTER=", "KUBERNETES_SERVICE_HOST="}
	why := "error: no server to talk to: neither --kubeconfig nor $KUBECONFIG is given, and none of these exists: " + filepath.Join(home, "none", "admin.kubeconfig") +
		", " + filepath.Join(home, ".kube", "config") + "; start one with 'reap server', or give --kubeconfig\n"
	const refused = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
	for _, tc := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"get pods", 1, why},
		{"api-resources", 1, why},
		{"get pods --server=http://127.0.0.1:1", 1, refused},
		{"get pods -s http://127.0.0.1:1", 1, refused},
		{"version --client", 0, ""},
		{"config view", 0, ""},
		{"nonsense", 1, "error: unknown command \"nonsense\" for \"kubectl\"\n"},
	} {
		got := reap(t, environ, append([]string{"kubectl"}, strings.Fields(tc.args)...)...).withoutRaceNote()
		if got.code != tc.code || got.stderr != tc.stderr {
			t.Errorf("%s: code %d, stderr %q\nwant %q", tc.args, got.code, got.stderr, tc.stderr)
		}
	}
	if got := reap(t, environ, "kubectl", "get", "pods", "-s", "http://127.0.0.1:1", "-v=1"); !strings.Contains(got.stderr, "Couldn't get current server API group list") {
		t.Errorf("with -v=1: %q", got.stderr)
	}
}

func TestWhatFollowsTwoDashesNamesNoKubeconfig(t *testing.T) {
	for _, tc := range []struct {
		args string
		want bool
	}{
		{"get pods", false},
		{"get pods --kubeconfig /x", true},
		{"--kubeconfig=/x get pods", true},
		{"exec pod -- kubectl --kubeconfig=/x get pods", false},
		{"--kubeconfig /x exec pod -- ls", true},
	} {
		if got := namesKubeconfig(strings.Fields(tc.args)); got != tc.want {
			t.Errorf("%q: %t", tc.args, got)
		}
	}
}
