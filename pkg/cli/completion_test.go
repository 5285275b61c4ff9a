package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCompletionScripts(t *testing.T) {
	for _, shell := range shells {
		got := reap(t, nil, "completion", shell)
		if got.code != exitOK || got.stderr != "" || !strings.Contains(got.stdout, "--generate-bash-completion") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
}

// Each shell that is there must at least be able to read its script.
func TestCompletionScriptsParse(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("it is not installed")
			}
			if out, err := exec.Command(path, "-n", "completion/reap."+shell).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	env := completionEnv(t)
	for _, tc := range []struct {
		words []string // the last one is what the cursor stands behind
		want  []string
	}{
		{[]string{"reap", "serve"}, []string{"server"}},
		{[]string{"reap", "completion", ""}, shells},
		{[]string{"reap", "server", "--tls"}, []string{"--tls-san"}},
		{[]string{"reap", "certificate", ""}, []string{"check", "rotate"}},
		{[]string{"reap", "certificate", "check", "--data"}, []string{"--data-dir"}},
		{[]string{"reap", "certificate", "rotate", "s"}, []string{"serving"}},
		{[]string{"reap", "certificate", "rotate", "serving", "--out"}, []string{"--output"}},
		{[]string{"reap", "service", ""}, []string{"install", "uninstall", "status"}},
		{[]string{"reap", "service", "install", "--skip-s"}, []string{"--skip-start"}},
		{[]string{"reap", "snapshot", ""}, []string{"save", "list", "restore", "prune"}},
		{[]string{"reap", "snapshot", "prune", "--re"}, []string{"--retain"}},
		{[]string{"reap", "snapshot", "restore", "--without"}, []string{"--without-pki"}},
		{[]string{"reap", "db", ""}, []string{"stats", "check", "compact", "export", "convert"}},
		{[]string{"reap", "db", "export", "--fo"}, []string{"--format", "--force"}},
		{[]string{"reap", "db", "convert", "--t"}, []string{"--to"}},
		{[]string{"reap", "db", "check", "--out"}, []string{"--output"}},
		{[]string{"reap", "server", "--snapshot-re"}, []string{"--snapshot-retain"}},
		{[]string{"reap", "server", "--disable", "gc", "--kube"}, []string{"--kube-apiserver-arg"}},
		{[]string{"reap", "del"}, []string{"delete"}},
		{[]string{"reap", "delete", "--wai"}, []string{"--wait"}},
		{[]string{"reap", "rel"}, []string{"relink", "release"}},
		{[]string{"reap", "relink", "--dry"}, []string{"--dry-run"}},
		{[]string{"reap", "release", "--fin"}, []string{"--finalizer"}},
		{[]string{"reap", "status", "--wa"}, []string{"--watch"}},
		{[]string{"reap", "li"}, []string{"lint"}},
		{[]string{"reap", "lint", "--fail"}, []string{"--fail-on"}},
		{[]string{"reap", "tree", "--lim"}, []string{"--limit"}},
		{[]string{"reap", "kube"}, []string{"kubectl"}},
		{[]string{"reap", "kubectl", "vers"}, []string{"version"}},
		{[]string{"reap", "kubectl", "config", "get-c"}, []string{"get-clusters", "get-contexts"}},
		{[]string{"reap", "kubectl", "get", "--all-n"}, []string{"--all-namespaces"}},
		{[]string{"reap", "kubectl", "get", "-o", "ya"}, []string{"yaml"}},
		{[]string{"reap", "kubectl", "get", "--output", "=", "ya"}, []string{"yaml"}}, // as bash takes it apart
		{[]string{"reap", "kubectl", "apply", "-f", ""}, nil},                         // a file
	} {
		script := `source completion/reap.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reap; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"-c", script, "bash"}, tc.words...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", tc.words, err, out)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.words, got, tc.want)
		}
	}
}

func TestFishCompletes(t *testing.T) {
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("fish is not installed")
	}
	script, err := filepath.Abs("completion/reap.fish")
	if err != nil {
		t.Fatal(err)
	}
	env := completionEnv(t)
	for line, want := range map[string]string{
		"reap serve":                       "server",
		"reap kubectl vers":                "version\tPrint the client and server version information",
		"reap kubectl get --output=go":     "--output=go-template\n--output=go-template-file",
		"reap kubectl config current-cont": "current-context\tDisplay the current-context",
	} {
		cmd := exec.Command(fish, "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line)
		cmd.Env = env
		cmd.Dir = t.TempDir() // fish completes files too
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%q: got %q (%v), want %q", line, out, err, want)
		}
	}
}

// TestKubectlCompletesItsPlugin does what kubectl does after `kubectl reap`.
func TestKubectlCompletesItsPlugin(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string // among the lines
	}{
		{[]string{""}, "server"},
		{[]string{"ser"}, "server"},
		{[]string{"server", "--tls"}, "--tls-san"},
		{[]string{"completion", ""}, "fish"},
		{[]string{"kubectl", "vers"}, "version\tPrint the client and server version information"},
		{[]string{"kubectl", "config", ""}, "view\tDisplay merged kubeconfig settings or a specified kubeconfig file"},
	} {
		got := called(t, "kubectl_complete-reap", nil, tc.words...)
		if got.code != exitOK || !slices.Contains(strings.Split(got.stdout, "\n"), tc.want) {
			t.Errorf("%q: %+v, want %q", tc.words, got, tc.want)
		}
	}
}

// completionEnv is an environment in which reap is on the path.
func completionEnv(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "reap")); err != nil {
		t.Fatal(err)
	}
	return []string{
		asProgram + "=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"),
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin, "REAP_CONFIG=/dev/null",
	}
}
