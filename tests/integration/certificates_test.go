package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// certificate is what `reap certificate … -o json` says of one.
type certificate struct {
	Name, Serial, Verdict string
	Expires               time.Time
}

// certificates runs `reap certificate check`, which must write nothing, and wants its exit code.
func (s *server) certificates(t *testing.T, code int) map[string]certificate {
	t.Helper()
	before := files(t, s.dir)
	r := run(t, "certificate", "check", "--config=", "--data-dir", s.dir, "-o", "json")
	before.mustBe(t, files(t, s.dir))
	if r.code != code || strings.Count(r.stderr, "\n") != code {
		t.Errorf("certificate check ended with %d, not %d: %s%s", r.code, code, r.stdout, r.stderr)
	}
	var list struct{ Certificates []certificate }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%q: %v", r.stdout, err)
	}
	return byName(list.Certificates)
}

func byName(list []certificate) map[string]certificate {
	found := map[string]certificate{}
	for _, c := range list {
		found[c.Name] = c
	}
	return found
}

// served is the certificate that a new connection gets, verified by the kubeconfig's CA.
func (s *server) served() (*x509.Certificate, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.config.CAData)
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: pool})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // only the handshake counts
	return conn.ConnectionState().PeerCertificates[0], nil
}

// age puts a certificate into the place of a leaf that says the same, for the same key, and ends tomorrow.
func (s *server) age(t *testing.T, name, authority string) (serial string) {
	t.Helper()
	dir := filepath.Join(s.dir, "pki")
	old, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, authority+".pem"), filepath.Join(dir, authority+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	template := *old.Leaf
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotAfter = time.Now().Add(24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.Leaf, old.Leaf.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, name+".crt")); err != nil {
		t.Fatal(err)
	}
	return template.SerialNumber.Text(16)
}

var leafAuthorities = map[string]string{"serving": "server-ca", "admin": "client-ca", "front-proxy": "front-proxy-ca"}

// awaitServed waits for new connections to get this certificate.
func (s *server) awaitServed(t *testing.T, serial string) {
	t.Helper()
	began := time.Now()
	await(t, "the serving certificate "+serial, func(context.Context) (bool, any) {
		cert, err := s.served()
		if err != nil {
			return false, err
		}
		return cert.SerialNumber.Text(16) == serial, cert.SerialNumber.Text(16)
	})
	t.Logf("the new certificate was served after %s", time.Since(began))
}

// awaitAdmin waits for a kubeconfig to have the administrator's certificate.
func (s *server) awaitAdmin(t *testing.T, kubeconfig string) {
	t.Helper()
	await(t, "the new certificate in "+kubeconfig, func(context.Context) (bool, any) {
		admin, err := os.ReadFile(filepath.Join(s.dir, "pki", "admin.crt"))
		if err != nil {
			return false, err
		}
		c, err := newClients(kubeconfig)
		if err != nil {
			return false, err
		}
		return bytes.Equal(c.config.CertData, admin), string(c.config.CertData)
	})
}

// Certificates come close to expiry while the server is down and while it runs, and are rotated. From the second
// start on it is one process.
func TestCertificatesAreRenewedAndRotated(t *testing.T) {
	t.Parallel()
	copied := filepath.Join(t.TempDir(), "copy")
	s := start(t, "--write-kubeconfig", copied, "--write-kubeconfig-mode", "0640")
	first := s.certificates(t, 0)
	s.stop(t)

	for name, ca := range leafAuthorities {
		s.age(t, name, ca)
	}
	for name, c := range s.certificates(t, 1) {
		if due := leafAuthorities[name] != ""; due != (c.Verdict == "due") {
			t.Errorf("%s is %s", name, c.Verdict)
		}
	}
	s.restart(t)
	second := s.certificates(t, 0)
	s.awaitServed(t, second["serving"].Serial)
	if second["serving"].Serial == first["serving"].Serial {
		t.Error("it serves the first certificate")
	}
	s.mustWork(t)
	process := s.cmd.Process.Pid
	from := len(s.logFrom(0))

	// By itself, in process. What is put there is served for a moment, or not at all.
	aged := map[string]string{}
	for name, ca := range leafAuthorities {
		aged[name] = s.age(t, name, ca)
	}
	var third map[string]certificate
	await(t, "the renewal", func(ctx context.Context) (bool, any) {
		r := reap(s.env, "certificate", "check", "--config=", "--data-dir", s.dir)
		out, err := r.CombinedOutput()
		return err == nil, string(out)
	})
	third = s.certificates(t, 0)
	s.awaitServed(t, third["serving"].Serial)
	for _, kubeconfig := range []string{s.Kubeconfig, copied} {
		s.awaitAdmin(t, kubeconfig)
	}
	for name := range leafAuthorities {
		if c := third[name]; c.Serial == aged[name] || c.Serial == second[name].Serial || time.Until(c.Expires) < 364*24*time.Hour {
			t.Errorf("%s is %+v", name, c)
		}
		await(t, "the log of "+name, func(context.Context) (bool, any) {
			log := s.logFrom(int64(from))
			return bytes.Contains(log, []byte("certificate renewed")) && bytes.Contains(log, []byte("certificate="+name)), string(log)
		})
	}
	s.mustWork(t) // those who are connected, and those who read the kubeconfig now

	// By hand.
	r := run(t, "certificate", "rotate", "--config=", "--data-dir", s.dir, "-o", "json")
	var rotated struct {
		Rotated    []certificate
		Kubeconfig string
	}
	if err := json.Unmarshal([]byte(r.stdout), &rotated); err != nil || r.code != 0 || rotated.Kubeconfig != s.Kubeconfig {
		t.Fatalf("%+v: %v", r, err)
	}
	fourth := byName(rotated.Rotated)
	s.awaitServed(t, fourth["serving"].Serial)
	for name := range leafAuthorities {
		if c := fourth[name]; c.Serial == third[name].Serial || c.Verdict != "ok" {
			t.Errorf("%s is %+v", name, c)
		}
	}
	for _, kubeconfig := range []string{s.Kubeconfig, copied} {
		s.awaitAdmin(t, kubeconfig)
	}
	for path, mode := range map[string]os.FileMode{s.Kubeconfig: 0o600, copied: 0o640} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v (%v)", path, info.Mode(), err)
		}
	}
	s.mustWork(t)
	await(t, "the new end in the metrics", func(ctx context.Context) (bool, any) {
		all, err := s.samples(ctx, "reap_certificate_expiry_timestamp_seconds")
		want := 0.0
		for name := range leafAuthorities {
			want += float64(fourth[name].Expires.Unix())
		}
		sum, n := 0.0, len(all)
		for _, x := range all {
			if leafAuthorities[x.labels["certificate"]] != "" {
				sum += x.value
			}
		}
		return err == nil && n == 6 && sum == want, fmt.Sprint(all, err)
	})
	if !s.running() || s.cmd.Process.Pid != process {
		t.Error("the server was restarted")
	}
}

// Certificates are rotated continuously while a server starts, works and stops.
func TestCertificatesAreRotatedWhileServersStart(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 3 {
		s.stop(t)
		var g errgroup.Group
		done := make(chan struct{})
		g.Go(func() error {
			for n := 0; ; n++ {
				out, err := reap(s.env, "certificate", "rotate", "--config=", "--data-dir", s.dir).CombinedOutput()
				if err != nil {
					return fmt.Errorf("rotating for the %dth time: %w: %s", n, err, out)
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		})
		s.restart(t)
		close(done)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		s.awaitServed(t, s.certificates(t, 0)["serving"].Serial)
		s.mustWork(t)
	}
}
