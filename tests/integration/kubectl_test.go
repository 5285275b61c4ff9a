package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/reap-dev/reap/tests/program"
)

// raceNote is what the race detector has kubectl say on stderr.
var raceNote = regexp.MustCompile(`(?m)^.*[Dd]ata race detection.*\n`)

// output is what a command wrote, and its exit code.
type output struct {
	stdout, stderr string
	code           int
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd, stdin string) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return output{stdout.String(), raceNote.ReplaceAllString(stderr.String(), ""), cmd.ProcessState.ExitCode()}
}

// kubectl is `reap kubectl` on a machine where nothing but the server's data directory is known.
type kubectl struct {
	t    *testing.T
	home string
	env  []string
}

func (s *server) kubectl(t *testing.T) kubectl {
	t.Helper()
	home := t.TempDir()
	none := filepath.Join(home, "config.yaml") // in place of this machine's own
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubectl{t, home, []string{"HOME=" + home, "REAP_CONFIG=" + none, "REAP_DATA_DIR=" + s.dir}}
}

func (k kubectl) command(args ...string) *exec.Cmd {
	return reap(k.env, append([]string{"kubectl"}, args...)...)
}

// run returns what kubectl prints, which must succeed.
func (k kubectl) run(stdin string, args ...string) string {
	k.t.Helper()
	got := finish(k.t, k.command(args...), stdin)
	if got.code != 0 {
		k.t.Fatalf("kubectl %s: code %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return strings.TrimSpace(got.stdout)
}

// kubectlIn returns a function that runs kubectl in a namespace.
func (s *server) kubectlIn(t *testing.T, ns string) func(stdin string, args ...string) string {
	t.Helper()
	k := s.kubectl(t)
	return func(stdin string, args ...string) string {
		t.Helper()
		return k.run(stdin, append([]string{"--namespace", ns}, args...)...)
	}
}

// TestKubectl does the main job with nothing but kubectl.
func TestKubectl(t *testing.T) {
	s := shared(t)
	ns := "kubectl-" + rand.String(5)
	kubectl := s.kubectlIn(t, ns)
	kubectl("", "create", "namespace", ns)
	kubectl("", "create", "configmap", "owner", "--from-literal=a=b")
	kubectl("", "create", "configmap", "bystander")
	uid := kubectl("", "get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
	var manifest strings.Builder
	for _, name := range []string{"one", "two", "three"} {
		manifest.WriteString(`---
apiVersion: v1
kind: ConfigMap
metadata:
  name: ` + name + `
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: ` + uid + `}]
`)
	}
	kubectl(manifest.String(), "apply", "--filename=-")
	kubectl("", "delete", "configmap", "owner", "--wait")
	kubectl("", "wait", "--for=delete", "--timeout="+patience.String(), "configmap/one", "configmap/two", "configmap/three")
	if got := kubectl("", "get", "configmaps", "--output=name"); got != "configmap/bystander\nconfigmap/"+rootCA {
		t.Errorf("after the deletion these ConfigMaps are left: %s", got)
	}
	kubectl("", "delete", "namespace", ns, "--wait", "--timeout="+patience.String())
	if got := kubectl("", "get", "namespaces", "--output=name"); strings.Contains(got, ns) {
		t.Errorf("the deleted namespace is left: %s", got)
	}
}

// TestLinkNamedKubectlIsKubectl: through a link, the program looks where kubectl looks and nowhere else.
func TestLinkNamedKubectlIsKubectl(t *testing.T) {
	s := shared(t)
	k := s.kubectl(t)
	target, err := filepath.EvalSymlinks(program.Path())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "kubectl")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	get := func(env ...string) output {
		cmd := called(link, append(k.env, env...), "get", "namespace", "default", "--output=name")
		cmd.Path = link
		return finish(t, cmd, "")
	}
	found := output{stdout: "namespace/default\n"}

	if got := finish(t, called(link, k.env, "config", "get-contexts", "--output=name"), ""); got != (output{}) {
		t.Errorf("kubectl looked further than $KUBECONFIG and ~/.kube/config: %+v", got)
	}
	if got := get("KUBECONFIG=" + s.Kubeconfig); got != found {
		t.Errorf("with $KUBECONFIG: %+v", got)
	}
	content, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// kubectl has made the directory for its cache.
	if err := os.WriteFile(filepath.Join(k.home, ".kube", "config"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get("REAP_DATA_DIR=/nowhere"); got != found {
		t.Errorf("with ~/.kube/config: %+v", got)
	}
}

func TestKubectlExitCodes(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "kubectl-codes")
	k := s.kubectl(t)
	configMap := func(data string) string {
		return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "` + data + `"}}`
	}
	k.run(configMap("b"), "apply", "--namespace", ns, "--filename=-")
	for _, tc := range []struct {
		args, stdin string
		want        output // which holds a part of each
	}{
		{"get configmap a --output=name", "", output{"configmap/a\n", "", 0}},
		{"get configmap none", "", output{"", "Error from server (NotFound): configmaps \"none\" not found\n", 1}},
		{"get nonsense", "", output{"", "error: the server doesn't have a resource type \"nonsense\"\n", 1}},
		{"create --filename=-", configMap("b"), output{"", `configmaps "a" already exists`, 1}},
		{"auth can-i get configmaps", "", output{"yes\n", "", 0}},
		{"auth can-i get configmaps --as=nobody", "", output{"no\n", "", 1}},
		{"diff --filename=-", configMap("b"), output{"", "", 0}},
		{"diff --filename=-", configMap("c"), output{"+  a: c", "", 1}},
		{"diff --filename=-", "{", output{"", "error: ", 2}},
	} {
		got := finish(t, k.command(append([]string{"--namespace", ns}, strings.Fields(tc.args)...)...), tc.stdin)
		if got.code != tc.want.code || !says(got.stdout, tc.want.stdout) || !says(got.stderr, tc.want.stderr) {
			t.Errorf("kubectl %s: got %+v, want %+v", tc.args, got, tc.want)
		}
	}
}

// says reports whether a text holds another exactly once, and nothing if that is empty.
func says(text, part string) bool {
	return part == text || part != "" && strings.Count(text, part) == 1
}

// TestKubectlSendsItsOwnUserAgent, which ends up in audit logs and in managedFields.
func TestKubectlSendsItsOwnUserAgent(t *testing.T) {
	s := shared(t)
	got := finish(t, s.kubectl(t).command("get", "--raw=/version", "--v=9"), "")
	agent := regexp.MustCompile(`(?i)user-agent: *([^"'\s]*)`).FindStringSubmatch(got.stderr)
	version, err := s.kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got.code != 0 || agent == nil || agent[1] != "kubectl/"+version.GitVersion {
		t.Errorf("code %d; it calls itself %q in:\n%s", got.code, agent, got.stderr)
	}
}

func TestKubectlCompletesWithTheServersObjects(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "kubectl-completes")
	k := s.kubectl(t)
	if got := k.run("", "__completeNoDesc", "get", "namespace", ns[:len(ns)-2]); got != ns+"\n:4" {
		t.Errorf("completed to %q", got)
	}
}

func TestKubectlPlugins(t *testing.T) {
	s := shared(t)
	k := s.kubectl(t)
	target, err := filepath.EvalSymlinks(program.Path())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(target, filepath.Join(bin, "kubectl-reap")); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$KUBECONFIG\" \"$@\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(bin, "kubectl-where"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	k.env = append(k.env, "PATH="+bin+":"+os.Getenv("PATH"))
	if got := k.run("", "reap", "--version"); !strings.HasPrefix(got, "reap version ") {
		t.Errorf("kubectl reap --version: %s", got)
	}
	want := output{s.Kubeconfig + " a --b\n", "", 7}
	if got := finish(t, k.command("where", "a", "--b"), ""); got != want {
		t.Errorf("a plugin: %+v, want %+v", got, want)
	}
}
