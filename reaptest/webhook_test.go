package reaptest_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/reap-dev/reap/reaptest"
)

// What a controller's own webhooks need: the server calls one that listens on localhost, by the CA that
// its configuration names.
func TestWebhookOnLocalhost(t *testing.T) {
	url, ca := denyingWebhook(t)
	c := clientOf(t, reaptest.Start(t))
	_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "deny"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name:         "deny.example.com",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}},
				SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The server takes a moment to learn of the configuration.
	awaitIn(t, "a denial", func() (bool, any) {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "denied-"},
		}, metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), `admission webhook "deny.example.com" denied the request: no ConfigMap called denied-`), err
	})
	c.create(t, "allowed")
}

// denyingWebhook serves one that refuses objects called denied-, and returns its URL and its CA.
func denyingWebhook(t *testing.T) (url string, ca []byte) {
	t.Helper()
	ca, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(ca, key)
	if err != nil {
		t.Fatal(err)
	}
	webhook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(review.Request.Object.Raw, &object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID:     review.Request.UID,
			Allowed: !strings.HasPrefix(object.Name+object.GenerateName, "denied-"),
			Result:  &metav1.Status{Message: "no ConfigMap called denied-"},
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the server has gone, if anything
	}))
	webhook.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	webhook.StartTLS()
	t.Cleanup(webhook.Close)
	return webhook.URL + "/validate", ca
}
