package integration

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/tests/program"
)

// status returns what a GET is answered with.
func status(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	code, _ := get(t, c, url)
	return code
}

// anonymous returns a client that knows the server and is known to nobody.
func (s *server) anonymous(t *testing.T) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.config.CAData) {
		t.Fatal("the kubeconfig has no CA in it")
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestAnonymousRequestsSeeOnlyHealthAndVersion(t *testing.T) {
	s := shared(t)
	c := s.anonymous(t)
	for _, path := range []string{"/livez", "/readyz", "/version"} {
		if got := status(t, c, s.URL+path); got != http.StatusOK {
			t.Errorf("%s answers %d", path, got)
		}
	}
	for _, path := range []string{
		"/", "/healthz", "/metrics", "/metrics/slis", "/api", "/api/v1/namespaces", "/apis", "/openapi/v2", "/openapi/v3",
		"/.well-known/openid-configuration", "/openid/v1/jwks", "/livez/ping", "/readyz/ping", "/version/x", "/logs/",
		"/debug/pprof/", "/debug/flags/v", "/debug/controllers/garbage-collector-controller/graph", "/configz", "/reap/v1/status",
		"/livez/../metrics", "/nonsense",
	} {
		if got := status(t, c, s.URL+path); got != http.StatusUnauthorized && got != http.StatusForbidden {
			t.Errorf("%s answers %d", path, got)
		}
	}
}

func TestMetricsOfAllPartsAreOnOnePage(t *testing.T) {
	s := shared(t)
	s.mustWork(t) // a series of its own for each kind begins with the first of them
	raw, err := s.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	datastores := "\nkine_"
	if program.Engine == config.EmbeddedEtcd {
		datastores = "\netcd_server_has_leader 1\n"
	}
	for _, want := range []string{
		datastores, "\napiserver_", "\nreap_gc_", "\nreap_gc_running 1\n",
		`reap_gc_objects_collected_total{group="",policy="Background",resource="configmaps"}`,
		`workqueue_depth{name="garbage_collector_attempt_to_delete"}`,
	} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("/metrics has no %q", want)
		}
	}
}

// TestPrivateFilesAreReadableOnlyByTheirOwner looks for keys in every file of the data directory.
func TestPrivateFilesAreReadableOnlyByTheirOwner(t *testing.T) {
	s := shared(t)
	if info, err := os.Stat(s.dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the data directory is %v (%v)", info.Mode(), err)
	}
	secret := 0
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(path)) == "db" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(raw, []byte("PRIVATE KEY")) && !bytes.Contains(raw, []byte("client-key")) {
			return err
		}
		secret++
		if info, err := d.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s is %v (%v)", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil || secret < 4 {
		t.Errorf("found %d files with keys (%v)", secret, err)
	}
}
