package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// clusterAt returns a kubeconfig of a server.
func clusterAt(t *testing.T, url string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		url+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	return kubeconfig
}

// TestSignalsEndTheReadingOfManifests: the first one does, and the exit code tells which.
func TestSignalsEndTheReadingOfManifests(t *testing.T) {
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	kubeconfig := clusterAt(t, silent.URL)
	for _, tc := range []struct {
		args   string
		signal syscall.Signal
		code   int
	}{
		{"lint -f -", syscall.SIGINT, exitInterrupt},
		{"lint -f " + silent.URL + "/a.yaml", syscall.SIGTERM, 143},
		{"plan delete -f -", syscall.SIGTERM, 143},
	} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, out, append(strings.Fields(tc.args), "--kubeconfig", kubeconfig)...)
		_ = out.Close() // so that writing ends if the program does
		if strings.HasSuffix(tc.args, " -") {
			// More than a pipe holds is taken only by a reader.
			_, err = in.Write(make([]byte, 1<<20))
		} else {
			<-asked
		}
		if err != nil {
			t.Fatalf("reap %s: %v: %+v", tc.args, err, r.ended(t))
		}
		if err := r.cmd.Process.Signal(tc.signal); err != nil {
			t.Fatal(err)
		}
		if got := r.ended(t); got.code != tc.code || !strings.Contains(got.stderr, "reading manifests: ") {
			t.Errorf("reap %s: %+v, want the exit code %d", tc.args, got, tc.code)
		}
		_ = in.Close()
	}
}

// TestErrorsOfCommandsShowNoContent: TestErrorsShowNoContent of pkg/manifest has more such Secrets.
func TestErrorsOfCommandsShowNoContent(t *testing.T) {
	kubeconfig, dir := clusterAt(t, "http://127.0.0.1:1"), t.TempDir()
	for name, text := range map[string]string{
		"kind":      "apiVersion: v1\nstringData: {password: hunter2}\n",
		"alias":     "apiVersion: v1\nkind: Secret\nstringData: {password: *hunter2}\n",
		"key":       "apiVersion: v1\nkind: Secret\nstringData:\n  ? {hunter2: a}\n  : b\n",
		"separator": "--- hunter2\n",
		"label":     "apiVersion: v1\nkind: Secret\nmetadata: {labels: [hunter2]}\n",
	} {
		writeFile(t, filepath.Join(dir, name+".yaml"), text)
	}
	for _, args := range []string{"lint", "relink --dry-run", "plan delete", "delete --yes", "why", "tree"} {
		got := reap(t, nil, append(strings.Fields(args), "--kubeconfig", kubeconfig, "-f", dir)...)
		if got.code != exitRun || strings.Contains(got.stdout+got.stderr, "hunter2") || strings.Count(got.stderr, ".yaml, document ") != 5 {
			t.Errorf("reap %s: %+v", args, got)
		}
	}
}

// TestIncompleteFoldersAreNoAllClear: what kubectl would apply and reap leaves out is named, and the exit code tells.
func TestIncompleteFoldersAreNoAllClear(t *testing.T) {
	s := fakeapi.New()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	for _, name := range []string{"a", "b"} {
		if err := s.Create("configmaps", metav1.ObjectMeta{Namespace: "default", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	folder, both := filepath.Join(dir, "folder"), filepath.Join(dir, "both.json")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const object = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}` + "\n"
	writeFile(t, both, object+strings.Replace(object, `"a"`, `"b"`, 1))
	writeFile(t, filepath.Join(folder, "a.yaml"), object)
	for _, name := range []string{"b", "c", "d", "e"} {
		if err := os.Symlink(both, filepath.Join(folder, name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := clusterAt(t, h.URL)
	const left = "(link that leaves the folder) and 1 more; of a folder only regular files in it are read"
	for _, tc := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"lint -f " + both, "nothing is wrong with the references of 2 objects", "", exitOK},
		{"relink --dry-run -f " + both, "no reference of 2 objects has to be relinked", "", exitOK},
		{"plan delete -f " + both, "configmaps/b", "", exitOK},
		{"lint -f " + folder, "nothing wrong was found in the references of 1 object that could be read", "the answer is incomplete: 4 files: left out: " + folder, exitIncomplete},
		{"lint -o json -f " + folder, left, left, exitIncomplete},
		{"relink --dry-run -f " + folder, left, left, exitIncomplete},
		{"plan delete -f " + folder, "", "4 files left out: " + folder, exitRun},
		{"delete --yes -f " + folder, "", "; nothing was deleted", exitRun},
	} {
		got := reap(t, nil, append(strings.Fields(tc.args), "--kubeconfig", kubeconfig)...)
		if got.code != tc.code || !strings.Contains(got.stdout, tc.stdout) || !strings.Contains(got.stderr, tc.stderr) || (got.stderr == "") != (tc.stderr == "") {
			t.Errorf("reap %s: exit code %d, want %d\n%s%s", tc.args, got.code, tc.code, got.stdout, got.stderr)
		}
	}
}
