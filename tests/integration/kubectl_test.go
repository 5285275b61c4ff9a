package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"
)

// kubectl returns a function that runs kubectl, of the API server's own version, in a namespace.
func (s *server) kubectl(t *testing.T, ns string) func(stdin string, args ...string) string {
	t.Helper()
	program := os.Getenv("TEST_KUBECTL")
	if program == "" {
		program = "../../bin/kubectl"
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("no kubectl of the API server's version (%v): run ./scripts/test, which builds it", err)
	}
	home := t.TempDir()
	return func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", s.Kubeconfig, "--namespace", ns}, args...)...)
		cmd.Env = []string{"HOME=" + home}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

// TestKubectl does the main job with nothing but kubectl and the kubeconfig.
func TestKubectl(t *testing.T) {
	s := shared(t)
	ns := "kubectl-" + rand.String(5)
	kubectl := s.kubectl(t, ns)
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
	kubectl(manifest.String(), "create", "--filename=-")
	kubectl("", "delete", "configmap", "owner", "--wait")
	kubectl("", "wait", "--for=delete", "--timeout="+patience.String(), "configmap/one", "configmap/two", "configmap/three")
	if got := kubectl("", "get", "configmaps", "--output=name"); got != "configmap/bystander\nconfigmap/"+rootCA {
		t.Errorf("left: %s", got)
	}
	kubectl("", "delete", "namespace", ns, "--wait", "--timeout="+patience.String())
	if got := kubectl("", "get", "namespaces", "--output=name"); strings.Contains(got, ns) {
		t.Errorf("left: %s", got)
	}
}
