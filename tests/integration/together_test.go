package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// beside starts another server on the datastore of s, as docs/install.md says: with a copy of its certificates and keys.
func (s *server) beside(t *testing.T, args ...string) *server {
	t.Helper()
	other := newServer(t.TempDir(), args...)
	if err := os.MkdirAll(other.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(other.dir, "pki"), os.DirFS(filepath.Join(s.dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	other.start(t)
	return other
}

// mustRefuseStrangers: a server with certificates of its own does not start on a datastore that others use.
func mustRefuseStrangers(t *testing.T, endpoint string) {
	t.Helper()
	stranger := newServer(t.TempDir(), "--datastore-endpoint", endpoint)
	r := run(t, append([]string{"server", "--config="}, stranger.args...)...)
	if r.code != 1 || !strings.Contains(r.stderr, "copy of <data-dir>/pki") || !strings.Contains(r.stderr, "--new-authorities") {
		t.Errorf("a server with other authorities ends with %d and says %s", r.code, r.stderr)
	}
}

// mustBeOneClusterWith: what one server has issued is good at the other.
func (s *server) mustBeOneClusterWith(t *testing.T, other *server) {
	t.Helper()
	for _, pair := range [][2]*server{{s, other}, {other, s}} {
		at := rest.CopyConfig(pair[0].config)
		at.Host = pair[1].URL
		admin, err := kubernetes.NewForConfig(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Errorf("the kubeconfig of one server at the other: %v", err)
		}
		token, err := pair[0].kube.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at = rest.AnonymousClientConfig(at)
		at.BearerToken = token.Status.Token
		account, err := kubernetes.NewForConfig(at)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := account.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil || who.Status.UserInfo.Username != "system:serviceaccount:default:default" {
			t.Errorf("a token of one server at the other: %+v, %v", who, err)
		}
	}
}
