package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// TestOneNamespaceIsNoAllClear: lint and relink say how many objects they have looked at, and in which namespace. Somebody who
// is about to run reap resume must not take the answer about one namespace, or about a name that no namespace has, for one
// about the cluster.
func TestOneNamespaceIsNoAllClear(t *testing.T) {
	s := fakeapi.New()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	dangling := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "before"}}
	for _, o := range []struct {
		resource string
		metav1.ObjectMeta
	}{
		{"configmaps", metav1.ObjectMeta{Namespace: "fine", Name: "a"}},
		{"secrets", metav1.ObjectMeta{Namespace: "fine", Name: "b"}},
		{"configmaps", metav1.ObjectMeta{Namespace: "restored", Name: "owner"}},
		{"secrets", metav1.ObjectMeta{Namespace: "restored", Name: "child", OwnerReferences: dangling}},
		{"nodes", metav1.ObjectMeta{Name: "wide"}},
		// Its references decide nothing any more: it is counted, relink leaves them as they are, and lint finds nothing wrong with them.
		{"secrets", metav1.ObjectMeta{Namespace: "fine", Name: "going", OwnerReferences: dangling, Finalizers: []string{"example.com/hold"}}},
	} {
		if err := s.Create(o.resource, o.ObjectMeta); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete("secrets", "fine", "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		h.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	const elsewhere = "; -A looks at all namespaces and at cluster-scoped objects\n"
	for _, tc := range []struct {
		args      string
		code      int
		ends      string
		namespace string
		judged    int
	}{
		{"lint -n fine", exitOK, "nothing is wrong with the references of the 3 objects in namespace fine" + elsewhere, "fine", 3},
		{"lint -n fien", exitIncomplete, "nothing wrong was found in the references of the 0 objects in namespace fien that could be read; the others were not looked at" + elsewhere, "fien", 0},
		{"lint", exitIncomplete, "nothing wrong was found in the references of the 0 objects in namespace default that could be read; the others were not looked at" + elsewhere, "default", 0},
		{"lint -n restored", exitRun, "1 finding in the 2 objects in namespace restored" + elsewhere, "restored", 2},
		{"lint -A", exitRun, "1 finding in 6 objects\n", "", 6},
		{"relink --dry-run -n fine", exitOK, "no reference of the 3 objects in namespace fine has to be relinked" + elsewhere, "fine", 3},
		{"relink --dry-run -n fien", exitIncomplete, "no reference of the 0 objects in namespace fien that could be read has to be relinked; the others were not looked at" + elsewhere, "fien", 0},
		{"relink --dry-run -n restored", exitOK, "in namespace restored: 1 reference to be relinked, 0 left as they are" + elsewhere, "restored", 2},
		{"relink --dry-run -A", exitOK, "\n1 reference to be relinked, 0 left as they are\n", "", 6},
	} {
		args := append(strings.Fields(tc.args), "--kubeconfig", kubeconfig)
		got := reap(t, nil, args...)
		if got.code != tc.code || (got.stderr != "") != (tc.code == exitIncomplete) || !strings.HasSuffix(got.stdout, tc.ends) {
			t.Errorf("reap %s: exit code %d, want %d, and %q\n%s%s", tc.args, got.code, tc.code, tc.ends, got.stdout, got.stderr)
		}
		var said struct {
			Basis report.Basis
			report.Scope
		}
		got = reap(t, nil, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(got.stdout), &said); err != nil || got.code != tc.code ||
			said.Scope != (report.Scope{Namespace: tc.namespace, Judged: tc.judged}) || said.Basis.Objects != 6 {
			t.Errorf("reap %s -o json (%v): exit code %d, %+v", tc.args, err, got.code, said)
		}
	}
}

// TestReadingNothingIsNoAllClear: with a token that may read nothing, an answer claims nothing, and a script sees that it is none.
func TestReadingNothingIsNoAllClear(t *testing.T) {
	s := fakeapi.New()
	s.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" || c.Verb == "get" {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		h.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	for _, args := range []string{"lint -A", "tree -A", "relink -A --dry-run", "relink -A --yes", "lint -A -o json", "lint -A -o sarif", "tree -A -o dot"} {
		got := reap(t, nil, append(strings.Fields(args), "--kubeconfig", kubeconfig)...)
		if got.code != exitIncomplete || !strings.Contains(got.stderr, "the answer is incomplete: ") {
			t.Errorf("reap %s: exit code %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
		for _, claim := range []string{"nothing is wrong", "objects has to be relinked", "nothing here"} {
			if strings.Contains(got.stdout+got.stderr, claim) {
				t.Errorf("reap %s claims %q:\n%s%s", args, claim, got.stdout, got.stderr)
			}
		}
	}
}
