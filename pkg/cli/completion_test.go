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
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		if out, err := exec.Command(path, "-n", "completion/reap."+shell).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "reap")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		words []string // the last one is what the cursor stands behind
		want  []string
	}{
		{[]string{"reap", "ser"}, []string{"server"}},
		{[]string{"reap", "completion", ""}, shells},
		{[]string{"reap", "server", "--tls"}, []string{"--tls-san"}},
		{[]string{"reap", "server", "--disable", "gc", "--kube"}, []string{"--kube-apiserver-arg"}},
	} {
		script := `source completion/reap.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reap; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"-c", script, "bash"}, tc.words...)...)
		cmd.Env = []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"), "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", tc.words, err, out)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.words, got, tc.want)
		}
	}
}
