package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// newAuthority returns the PEM of a new CA: its certificate and its key.
func newAuthority(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(keyPEM)
}

// approved is a world with an approved request for a client certificate.
func approved(t *testing.T, answer func(context.Context, string) *http.Response) *world {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, private)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return &world{answer: answer, lists: map[string]string{"certificatesigningrequests": `{"metadata":{"name":"jane","resourceVersion":"1","uid":"u"},` +
		`"spec":{"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":"` + request + `"},` +
		`"status":{"conditions":[{"type":"Approved","status":"True"}]}}`}}
}

// TestSignerTakesTheFileOfThePair: the certificate stands beside its key, where no further CA is trusted.
func TestSignerTakesTheFileOfThePair(t *testing.T) {
	before := runtime.NumGoroutine()
	cert, key := newAuthority(t)
	pair := write(t, t.TempDir(), "ca.pem", key+cert)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("nothing was signed"))
	defer cancel()
	w := approved(t, func(_ context.Context, resource string) *http.Response {
		if resource == "status" { // of the request
			cancel()
		}
		return nil
	})
	o := w.options(patience, "csrsigning")
	o.Keys.ClientCA, o.Keys.ServerCA = Authority{pair, pair}, Authority{pair, pair}
	if err := Run(ctx, o, func() {}); err != nil {
		t.Error(err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; failures: %+v", err, o.Failures.All())
	}
	mustLeaveNothing(t, before)
}

// TestSignerWithoutItsCertificateSaysSo, before it has created anything that only running it would end.
func TestSignerWithoutItsCertificateSaysSo(t *testing.T) {
	dir := t.TempDir()
	cert, key := newAuthority(t)
	other, _ := newAuthority(t)
	good := write(t, dir, "good.pem", key+cert)
	for name, tc := range map[string]struct {
		server Authority
		says   string
	}{
		"two certificates": {Authority{write(t, dir, "two.crt", cert+other), good}, "two.crt holds 2, and has to hold the certificate of the key alone"},
		"another's":        {Authority{write(t, dir, "other.crt", other), good}, "other.crt, and its key"},
		"none":             {Authority{filepath.Join(dir, "none.crt"), good}, "none.crt: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			w := approved(t, nil)
			o := w.options(patience, "csrsigning")
			o.Keys.ClientCA, o.Keys.ServerCA = Authority{good, good}, tc.server
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("no failure was shown"))
			defer cancel()
			var failed []Failure
			o.Log.Logger.AddHook(&counted{t: t, controller: "csrsigning", left: 1, done: func() { failed = o.Failures.All(); cancel() }})
			if err := Run(ctx, o, func() {}); err != nil {
				t.Error(err)
			}
			if len(failed) != 1 || failed[0].Controller != "csrsigning" || !strings.Contains(failed[0].Err.Error(), tc.says) {
				t.Errorf("failures: %+v", failed)
			}
			mustLeaveNothing(t, before)
		})
	}
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
