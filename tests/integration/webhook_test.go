package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// webhook is a webhook on 127.0.0.1 that does as a test says.
type webhook struct {
	server *httptest.Server
	ca     []byte // its certificate

	// mu protects what follows.
	mu    sync.Mutex
	does  string // allow, deny, or hang until that changes
	freed chan struct{}
	asked map[string]int // how often, by what it did
}

const (
	allows = "allow"
	denies = "deny"
	hangs  = "hang"
)

func newWebhook(t *testing.T, does string) *webhook {
	t.Helper()
	w := &webhook{does: does, freed: make(chan struct{}), asked: map[string]int{}}
	w.server = httptest.NewTLSServer(w)
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	t.Cleanup(func() {
		w.set(allows) // nobody waits for what hangs
		w.server.Close()
	})
	return w
}

// set changes what it does, also for those who hang.
func (w *webhook) set(does string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does = does
	close(w.freed)
	w.freed = make(chan struct{})
}

// awaitAsked waits until it has been asked so often since it does what it does.
func (w *webhook) awaitAsked(t *testing.T, does string, times int) {
	t.Helper()
	await(t, "the webhook to be asked", func(context.Context) (bool, any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked[does] >= times, maps.Clone(w.asked)
	})
}

// behaviour counts a call and waits until it may be answered; false if the caller has given up.
func (w *webhook) behaviour(ctx context.Context) (does string, answer bool) {
	for first := true; ; first = false {
		w.mu.Lock()
		does, freed := w.does, w.freed
		if first {
			w.asked[does]++
		}
		w.mu.Unlock()
		if does != hangs {
			return does, true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return does, false
		}
	}
}

// ServeHTTP answers reviews of admission; a conversion fails unless the caller is allowed.
func (w *webhook) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	does, answer := w.behaviour(r.Context())
	if !answer {
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, "no review of admission", http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: does == allows, Result: &metav1.Status{Message: "the webhook of a test denies it"}}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review)
}

// guardDeletes has a server ask the webhook before it deletes secrets in a namespace.
func (s *server) guardDeletes(t *testing.T, w *webhook, ns string, timeoutSeconds int32) {
	t.Helper()
	url, fail, none := w.server.URL, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deletes.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &timeoutSeconds,
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.ca},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		}},
	}
	hooks := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := hooks.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.running() {
			_ = hooks.Delete(context.Background(), ns, metav1.DeleteOptions{})
		}
	})
	// It takes effect a little later: wait until somebody has been asked about a deletion.
	probe := s.create(t, secrets, ns, "probe")
	await(t, "the webhook to be in effect", func(ctx context.Context) (bool, any) {
		err := s.dyn.Resource(secrets.gvr).Namespace(ns).Delete(ctx, probe.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, err
	})
}

// Admission refuses deletes, or does not answer in time. Only the refused objects wait, and they are collected once deletes
// are allowed.
func TestRefusedDeletesHoldUpNothingElse(t *testing.T) {
	s := shared(t)
	for _, does := range []string{denies, hangs} {
		t.Run(does, func(t *testing.T) {
			ns := s.namespace(t, "refused")
			w := newWebhook(t, does)
			o, solid := s.create(t, configMaps, ns, "owner"), s.create(t, configMaps, ns, "solid")
			s.createMany(t, 3, secrets, ns, "refused", owner(o))
			s.createMany(t, 10, configMaps, ns, "dependent", owner(o))
			kept := s.create(t, secrets, ns, "kept", owner(o), owner(solid))
			s.guardDeletes(t, w, ns, 1)
			s.delete(t, configMaps, o)
			s.awaitCount(t, 1, configMaps, ns) // solid
			w.awaitAsked(t, does, 8)
			if n := s.count(t, secrets, ns); n != 5 { // with the probe
				t.Errorf("%d secrets are left", n)
			}
			await(t, "reap status to name them", func(context.Context) (bool, any) {
				st := s.status(t)
				return slices.ContainsFunc(st.Failing, func(f report.Failure) bool { return f.Object.Namespace == ns && f.Error != "" }), st.Failing
			})
			other := s.namespace(t, "beside")
			o = s.create(t, configMaps, other, "owner")
			s.createMany(t, 5, secrets, other, "dependent", owner(o))
			s.delete(t, configMaps, o)
			s.awaitCount(t, 0, secrets, other)
			w.set(allows)
			s.awaitCount(t, 2, secrets, ns) // the probe, and what another owner keeps
			s.mustExist(t, secrets, kept)
		})
	}
}

// The server stops although a delete of the collector is not answered. The collector continues after the next start.
func TestServerStopsWhileAWebhookHangs(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "hanging")
	w := newWebhook(t, denies)
	o := s.create(t, configMaps, ns, "owner")
	s.create(t, secrets, ns, "dependent", owner(o))
	s.guardDeletes(t, w, ns, 30)
	w.set(hangs)
	s.delete(t, configMaps, o)
	w.awaitAsked(t, hangs, 1)
	s.stop(t)
	w.set(allows)
	s.restart(t)
	s.awaitCount(t, 1, secrets, ns) // the probe
}

// The resource's objects are kept while its conversion webhook hangs, and collected when it answers again.
func TestConversionThatHangsHoldsUpNothingElse(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "converted")
	valves, crd := s.define(t, "Namespaced", "valves", "Valve")
	o := s.create(t, configMaps, ns, "owner")
	dependent := s.create(t, valves, ns, "dependent", owner(o))
	s.barrier(t, valves, ns) // the collector knows of them
	w := newWebhook(t, hangs)
	mend := func() {
		s.convert(t, crd, mended)
		w.set(denies) // who still waits gets an error
	}
	mendedAlready := false
	t.Cleanup(func() { // whatever happens: others list everything
		if !mendedAlready {
			mend()
		}
	})
	s.convert(t, crd, fmt.Sprintf(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%s}}}`, w.server.URL, asJSON(t, w.ca)))
	w.awaitAsked(t, hangs, 1)
	s.createMany(t, 20, configMaps, ns, "dependent", owner(o))
	s.delete(t, configMaps, o)
	s.awaitCount(t, 0, configMaps, ns)
	s.mustExist(t, valves, dependent)
	mend()
	mendedAlready = true
	s.awaitGone(t, valves, dependent)
	s.undefine(t, crd)
}
