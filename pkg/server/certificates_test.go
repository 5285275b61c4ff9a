package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/tests/bubble"
)

// TestCertificatesAreRenewedWhileTheServerRuns lets most of a year pass.
func TestCertificatesAreRenewedWhileTheServerRuns(t *testing.T) {
	log := test.NewGlobal()
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{}) })
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, time.March, 4, 5, 6, 7, 0, time.UTC))) // a plausible time
		top := t.TempDir()
		copied := filepath.Join(top, "copy")
		a := &access{
			cfg:        config.Server{DataDir: top, WriteKubeconfig: copied, WriteKubeconfigMode: 0o640},
			url:        "https://127.0.0.1:6443",
			kubeconfig: config.AdminKubeconfig(top),
		}
		if _, err := a.look(); err != nil {
			t.Fatal(err)
		}
		first := inspect(t, top)

		time.Sleep(274 * 24 * time.Hour) // of 365; they are renewed 90 before the end
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		changed := make(bell, 1)
		go a.keep(ctx, changed)
		synctest.Wait()
		for name, c := range inspect(t, top) {
			if c.Serial != first[name].Serial {
				t.Errorf("%s was renewed too early", name)
			}
		}
		if len(log.AllEntries()) != 0 {
			t.Errorf("logged %v", log.LastEntry().Message)
		}

		time.Sleep(25 * time.Hour)
		synctest.Wait()
		second := inspect(t, top)
		for name, c := range second {
			if isLeaf := c.Authority != ""; isLeaf != (c.Serial != first[name].Serial) {
				t.Errorf("%s had the number %s and has %s", name, first[name].Serial, c.Serial)
			}
		}
		wantRenewals(t, log, "admin", "front-proxy", "serving")
		wantCurrentKubeconfigs(t, a)

		// Somebody else makes a new one, and the bell rings.
		if err := pki.Rotate(config.PKIDir(top), time.Now(), "admin"); err != nil {
			t.Fatal(err)
		}
		changed.Enqueue()
		changed.Enqueue()
		synctest.Wait()
		wantRenewals(t, log, "admin")
		wantCurrentKubeconfigs(t, a)
		if info, err := os.Stat(copied); err != nil || info.Mode() != 0o640 {
			t.Errorf("the copy has mode %v (%v)", info.Mode(), err)
		}
		wantEnds(t, inspect(t, top))
		stop()
		synctest.Wait()
	})
}

func inspect(t *testing.T, dataDir string) map[string]pki.Certificate {
	t.Helper()
	all, err := pki.Inspect(config.PKIDir(dataDir), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]pki.Certificate{}
	for _, c := range all {
		byName[c.Name] = c
	}
	return byName
}

// wantRenewals wants a line for each certificate, and nothing else in the log since the last time.
func wantRenewals(t *testing.T, log *test.Hook, names ...string) {
	t.Helper()
	left := map[any]int{}
	for _, name := range names {
		left[name] = 1
	}
	for _, e := range log.AllEntries() {
		left[e.Data["certificate"]]--
		if e.Message != "certificate renewed" || e.Level != logrus.InfoLevel {
			t.Errorf("logged %s: %v", e.Message, e.Data)
		}
	}
	for name, n := range left {
		if n != 0 {
			t.Errorf("%v: %d lines are missing", name, n)
		}
	}
	log.Reset()
}

func wantCurrentKubeconfigs(t *testing.T, a *access) {
	t.Helper()
	admin, err := os.ReadFile(filepath.Join(config.PKIDir(a.cfg.DataDir), "admin.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{a.kubeconfig, a.cfg.WriteKubeconfig} {
		c, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil || c.Host != a.url || !bytes.Equal(c.CertData, admin) {
			t.Errorf("%s is for %s and has another certificate (%v)", path, c.Host, err)
		}
	}
}

// wantEnds compares the metric with the certificates.
func wantEnds(t *testing.T, want map[string]pki.Certificate) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range families {
		if f.GetName() != "reap_certificate_expiry_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			series++
			name := m.GetLabel()[0].GetValue()
			if got := int64(m.GetGauge().GetValue()); got != want[name].Expires.Unix() {
				t.Errorf("%s ends at %d, which should be %d", name, got, want[name].Expires.Unix())
			}
		}
	}
	if series != 6 {
		t.Errorf("%d series", series)
	}
}

// lookedAt returns the access to a new data directory, whose certificates have been looked at once.
func lookedAt(t *testing.T) *access {
	t.Helper()
	top := t.TempDir()
	a := &access{cfg: config.Server{DataDir: top}, url: "https://127.0.0.1:6443", kubeconfig: config.AdminKubeconfig(top)}
	if _, err := a.look(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAuthorityNearItsEndIsWarnedAboutOnceADay looks every hour.
func TestAuthorityNearItsEndIsWarnedAboutOnceADay(t *testing.T) {
	log := test.NewGlobal()
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{}) })
	bubble.Test(t, func(t *testing.T) {
		a := lookedAt(t)
		// A CA that its .crt does not hold stands for every one that needs looking at.
		other := t.TempDir()
		if _, err := pki.Ensure(other, pki.Options{}); err != nil {
			t.Fatal(err)
		}
		crt, err := os.ReadFile(filepath.Join(other, "server-ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(config.PKIDir(a.cfg.DataDir), "server-ca.crt"), crt, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 49 {
			a.tell(config.PKIDir(a.cfg.DataDir))
			time.Sleep(time.Hour)
		}
		var warnings []string
		for _, e := range log.AllEntries() {
			if e.Level == logrus.WarnLevel && e.Data["certificate"] == "server-ca" {
				warnings = append(warnings, e.Message)
			}
		}
		if len(warnings) != 3 || !strings.Contains(warnings[0], "docs/certificates.md") {
			t.Errorf("warnings: %q", warnings)
		}
	})
}

// TestExpiredCertificateInMemoryAsksForARestart lets more than three years pass.
func TestExpiredCertificateInMemoryAsksForARestart(t *testing.T) {
	log := test.NewGlobal()
	t.Cleanup(func() { logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{}) })
	bubble.Test(t, func(t *testing.T) {
		a := lookedAt(t)
		const day = 24 * time.Hour
		for _, step := range []struct {
			pass time.Duration
			want int
		}{{0, 0}, {3*365*day - time.Hour, 0}, {2 * time.Hour, 1}, {time.Hour, 1}, {day, 2}} {
			time.Sleep(step.pass)
			a.tell(config.PKIDir(a.cfg.DataDir))
			var warnings int
			for _, e := range log.AllEntries() {
				if strings.Contains(e.Message, "restart reap") {
					warnings++
				}
			}
			if warnings != step.want {
				t.Errorf("at %v: %d warnings, want %d", time.Now(), warnings, step.want)
			}
		}
	})
}

// TestControllersSignWithOneCertificate while clients trust a second authority: Kubernetes' signer takes no file with two.
func TestControllersSignWithOneCertificate(t *testing.T) {
	top := t.TempDir()
	a := &access{cfg: config.Server{DataDir: top}, url: "https://127.0.0.1:6443", kubeconfig: config.AdminKubeconfig(top)}
	var err error
	if a.files, err = a.look(); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(a.files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(a.files.ServerCA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.files.ClientCA, append(other, own...), 0o644); err != nil {
		t.Fatal(err)
	}
	if a.files, err = a.look(); err != nil {
		t.Fatal(err)
	}
	for _, by := range []controllers.Authority{a.keys().ClientCA, a.keys().ServerCA} {
		certs, err := certutil.CertsFromFile(by.Cert)
		if err != nil || len(certs) != 1 {
			t.Errorf("%s holds %d certificates (%v)", by.Cert, len(certs), err)
		}
		if _, err := tls.LoadX509KeyPair(by.Cert, by.Key); err != nil {
			t.Error(err)
		}
	}
}
