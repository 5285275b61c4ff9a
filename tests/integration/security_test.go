package integration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// ourEndpoints are the paths that reap adds to the API server.
func ourEndpoints() []string {
	all := append([]string{"/metrics"}, report.GraphPaths...)
	for _, name := range []string{"", "status", "why", "tree", "plan", "lint", "nonsense"} {
		all = append(all, report.Root+name)
	}
	return all
}

// TestReapEndpointsRefuseCallersWithoutPermission: callers without credentials, with wrong ones, and users without permission get a
// refusal, however the path is written.
func TestReapEndpointsRefuseCallersWithoutPermission(t *testing.T) {
	s := shared(t)
	nobody := rest.CopyConfig(s.config)
	nobody.Impersonate.UserName = "nobody-in-particular"
	forbidden, err := rest.HTTPClientFor(nobody)
	if err != nil {
		t.Fatal(err)
	}
	stranger := s.anonymous(t)
	stranger.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{selfSigned(t)}
	paths := append(ourEndpoints(), // and tricks
		"/reap/v1/../v1/status", "/reap/v1//status", "/reap/v1/status/", "/reap/v1/%2e%2e/v1/status", "/reap/v1/status%00", "/livez/../reap/v1/status", "//reap/v1/status",
		"/reap/v1/status?"+strings.Repeat("x", 64<<10),
	)
	callers := map[string]func(*http.Request) (*http.Response, error){
		"nobody": s.anonymous(t).Do,
		"somebody with a wrong token": func(r *http.Request) (*http.Response, error) {
			r.Header.Set("Authorization", "Bearer nonsense")
			return s.anonymous(t).Do(r)
		},
		"somebody with a strange CA":      stranger.Do,
		"a user to whom nothing is given": forbidden.Do,
	}
	refused := map[string]int{} // by caller
	for _, path := range paths {
		for who, ask := range callers {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := ask(r)
			if err != nil {
				t.Errorf("%s asks for %.60s and gets no answer: %v", who, path, err)
				continue
			}
			if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
				refused[who]++
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode < 400 || bytes.Contains(body, []byte(`"running"`)) || bytes.Contains(body, []byte("digraph")) {
				t.Errorf("%s asks for %.60s and gets %s: %.200s", who, path, resp.Status, body)
			}
		}
	}
	for who := range callers {
		if n := refused[who]; n < len(ourEndpoints()) {
			t.Errorf("%s is refused with 401 or 403 at %d of %d paths", who, n, len(paths))
		}
	}
	admin, err := rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{report.Root + "status": http.StatusOK, report.Root + "nonsense": http.StatusNotFound, report.Root + "tree?limit=-1": http.StatusBadRequest} {
		if got := status(t, admin, s.URL+path); got != want {
			t.Errorf("the administrator asks for %s and gets %d", path, got)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+report.Root+"status", strings.NewReader(strings.Repeat("x", 4<<20)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := admin.Do(r)
		if err != nil {
			continue // it does not read four megabytes
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s is answered with %s", method, resp.Status)
		}
	}
}

// selfSigned is a client certificate of an administrator, by nobody's authority.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "reap-admin", Organization: []string{"system:masters"}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestOldTLSIsRefused(t *testing.T) {
	s := shared(t)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c := s.anonymous(t)
		config := c.Transport.(*http.Transport).TLSClientConfig
		config.MinVersion, config.MaxVersion = version, version
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// TestCollectorMayDoNoMoreThanItNeeds: what its identity is allowed, and what not.
func TestCollectorMayDoNoMoreThanItNeeds(t *testing.T) {
	s := shared(t)
	allowed := func(user string, a authorizationv1.SubjectAccessReviewSpec) bool {
		t.Helper()
		a.User, a.Groups = user, []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
		r, err := s.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: a}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Allowed
	}
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	for verbs, want := range map[string]bool{"get list watch patch update delete": true, "create deletecollection impersonate bind escalate approve sign use proxy": false} {
		for verb := range strings.FieldsSeq(verbs) {
			for _, resource := range []authorizationv1.ResourceAttributes{
				{Resource: "configmaps", Namespace: "default"}, {Resource: "secrets", Namespace: "kube-system"}, {Resource: "pods", Namespace: "default"},
				{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, {Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
				{Group: testGroup, Resource: "anything"}, {Resource: "users"}, {Resource: "groups"},
			} {
				resource.Verb = verb
				if got := allowed(collector, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &resource}); got != want {
					t.Errorf("the collector may %s %s.%s: %v", verb, resource.Resource, resource.Group, got)
				}
			}
		}
	}
	for _, sub := range []string{"exec", "attach", "portforward", "eviction", "binding"} {
		if allowed(collector, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: sub, Namespace: "default"}}) {
			t.Errorf("the collector may create pods/%s", sub)
		}
	}
	if allowed(collector, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: "kube-system"}}) {
		t.Error("the collector may issue tokens")
	}
	if !allowed(collector, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "events", Namespace: "default"}}) {
		t.Error("the collector may write no events")
	}
	for _, path := range ourEndpoints() {
		if allowed(collector, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}}) {
			t.Errorf("the collector may ask for %s", path)
		}
	}
}

// TestSecretsAppearInNoLogEventOrReport looks in logs, events, reports and errors for the content of a Secret that is collected, for
// the server's keys and tokens, and for the password of a datastore.
func TestSecretsAppearInNoLogEventOrReport(t *testing.T) {
	for _, endpoint := range []string{"", config.EmbeddedEtcd} {
		t.Run(cmp.Or(endpoint, "sqlite"), func(t *testing.T) {
			t.Parallel()
			appearsNowhere(t, "--datastore-endpoint="+endpoint)
		})
	}
}

// appearsNowhere looks for secrets in all that a server with this argument tells.
func appearsNowhere(t *testing.T, arg string) {
	t.Helper()
	s := start(t, "--log-level=trace", arg)
	ns := s.namespace(t, "told")
	const content = "correct-horse-battery-staple"
	secret := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		o := object(secrets, name, owners...)
		o.Object["stringData"] = map[string]any{"password": content}
		if name == "kept" {
			o.SetFinalizers([]string{hold})
		}
		made, err := s.dyn.Resource(secrets.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	secret("collected", nobody(configMaps))
	kept := secret("kept", nobody(configMaps))
	await(t, "one of them to be collected", func(ctx context.Context) (bool, any) {
		now, err := s.uids(ctx, secrets, ns)
		return err == nil && len(now) == 1, now
	})
	// One that lint complains about, and tree shows below another.
	s.awaitKnown(t, secrets, secret("owned", owner(kept), metav1.OwnerReference{APIVersion: testGroup + "/v1", Kind: "Nonsense", Name: "none", UID: "none"}))
	told := map[string][]byte{}
	for _, c := range []struct {
		command string
		code    int
		about   string // the secret that the output names
	}{
		{"status -o json", 0, ""},
		{"why secrets/kept -o json -n " + ns, 0, "kept"},
		{"tree -o json -n " + ns, 0, "kept"},
		{"lint -A -o json", 1, "owned"}, // it finds something
		{"plan delete secrets/kept -o json -n " + ns, 0, "kept"},
		{"nonsense", 2, ""},
		{"status --kubeconfig=/nowhere", 2, ""},
	} {
		out, errs, code := s.run(t, strings.Fields(c.command)...)
		told["reap "+c.command] = []byte(out + errs)
		if code != c.code || c.about != "" && !strings.Contains(out, `"name": "`+c.about+`"`) {
			t.Errorf("reap %s ends with %d, want %d, and says %s%s", c.command, code, c.code, out, errs)
		}
	}
	events, err := s.kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if told["events"], err = json.Marshal(events); err != nil {
		t.Fatal(err)
	}
	if told["/metrics"], err = s.metrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	forbidden := map[string]string{
		"a secret's content": content, "a secret's content as it is stored": base64.StdEncoding.EncodeToString([]byte(content)),
		"a private key": "PRIVATE KEY", "a private key as kubeconfigs have it": base64.StdEncoding.EncodeToString([]byte("-----BEGIN EC PRIVATE KEY"))[:28], "a token": "eyJhbGciOi",
	}
	s.stop(t)
	told["the log"] = s.logFrom(0)
	if len(told["the log"]) == 0 {
		t.Fatal("there is no log")
	}
	const password = "hunter2-of-the-datastore"
	// A start would wait for the second.
	for _, endpoint := range []string{"postgres://user:" + password + "@127.0.0.1:none/db", "mysql://user:" + password + "@tcp(127.0.0.1:1)/db", "nonsense://user:" + password + "@127.0.0.1:1/db"} {
		cmd := reap([]string{"HOME=" + t.TempDir()}, "server", "--config=", "--data-dir", filepath.Join(t.TempDir(), "data"), "--https-listen-port=0", "--datastore-endpoint", endpoint, "--log-level=trace", "--datastore-timeout=1s")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("a server has started on %s", endpoint)
		}
		told["the start on "+strings.SplitN(endpoint, ":", 2)[0]] = out
		if bytes.Contains(out, []byte(password)) {
			t.Errorf("%s tells the datastore's password", endpoint)
		}
	}
	for where, text := range told {
		for what, secret := range forbidden {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s tells %s", where, what)
			}
		}
	}
	if raw, err := os.ReadFile(filepath.Join(s.dir, "admin.kubeconfig")); err != nil || !bytes.Contains(raw, []byte("client-key-data")) {
		t.Errorf("the kubeconfig has no key in it: %v", err)
	}
}
