package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// aDay is a date at which the clock can be right.
var aDay = time.Date(2027, time.March, 4, 5, 6, 7, 8, time.UTC)

func at(now time.Time, hosts ...string) Options {
	return Options{Hosts: hosts, Now: func() time.Time { return now }}
}

func mustEnsure(t *testing.T, dir string, o Options) Files {
	t.Helper()
	f, err := Ensure(dir, o)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return f
}

// snapshot returns every file in dir by name.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// changed returns the sorted names of files that differ between two snapshots.
func changed(before, after map[string]string) []string {
	var names []string
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func loadCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	certs, err := certutil.CertsFromFile(path)
	if err != nil || len(certs) != 1 {
		t.Fatalf("%s: %d certificates, %v", path, len(certs), err)
	}
	return certs[0]
}

func loadPool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	pool, err := certutil.NewPool(path)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// verifyAll checks what users of the files need at the time when: chains, usages,
// names, pairs, key, and permissions.
func verifyAll(t *testing.T, f Files, when time.Time, hosts ...string) {
	t.Helper()
	for _, host := range append(hosts, builtinHosts...) {
		_, err := loadCert(t, f.ServingCert).Verify(x509.VerifyOptions{
			DNSName: host, Roots: loadPool(t, f.ServerCA), CurrentTime: when,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			t.Errorf("serving certificate for %s: %v", host, err)
		}
	}
	for cert, ca := range map[string]string{f.AdminCert: f.ClientCA, f.FrontProxyCert: f.FrontProxyCA} {
		_, err := loadCert(t, cert).Verify(x509.VerifyOptions{
			Roots: loadPool(t, ca), CurrentTime: when,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			t.Errorf("%s: %v", cert, err)
		}
	}
	for _, pair := range [][2]string{{f.ServingCert, f.ServingKey}, {f.AdminCert, f.AdminKey}, {f.FrontProxyCert, f.FrontProxyKey}} {
		if _, err := tls.LoadX509KeyPair(pair[0], pair[1]); err != nil {
			t.Errorf("%s: %v", pair[0], err)
		}
	}
	// As kube-apiserver reads it, once as either flag.
	if _, err := keyutil.PrivateKeyFromFile(f.ServiceAccountKey); err != nil {
		t.Error(err)
	}
	if _, err := keyutil.PublicKeysFromFile(f.ServiceAccountKey); err != nil {
		t.Error(err)
	}
	verifyModes(t, filepath.Dir(f.ServerCA))
}

func verifyModes(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%s has mode %v", dir, info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 13 {
		t.Errorf("%d files in %s: %v", len(entries), dir, entries)
	}
	for _, e := range entries {
		want := fs.FileMode(0o600)
		if strings.HasSuffix(e.Name(), ".crt") {
			want = 0o644
		}
		if info, err := e.Info(); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v (%v)", e.Name(), info.Mode(), want, err)
		}
	}
}

// wantError asserts a one-line error that names all of parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has several lines", err)
	}
}

func TestFresh(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "tls")
	f := mustEnsure(t, dir, at(aDay, "edge.example.com", "*.example.org", "10.43.0.1", "fe80::1%eth0", "192.0.2.7"))
	verifyAll(t, f, aDay, "edge.example.com", "a.example.org", "10.43.0.1", "fe80::1", "192.0.2.7")

	if got := loadCert(t, f.AdminCert).Subject.String(); got != "CN=reap-admin,O=system:masters" {
		t.Errorf("admin is %s", got)
	}
	if got := loadCert(t, f.FrontProxyCert).Subject.String(); got != "CN="+FrontProxyName {
		t.Errorf("front proxy is %s", got)
	}
	for _, leaf := range []string{f.ServingCert, f.AdminCert, f.FrontProxyCert} {
		if end := loadCert(t, leaf).NotAfter; !end.Equal(aDay.Add(leafLifetime).Truncate(time.Second)) {
			t.Errorf("%s ends %v", leaf, end)
		}
	}
	for _, ca := range []string{f.ServerCA, f.ClientCA, f.FrontProxyCA} {
		cert := loadCert(t, ca)
		if !cert.IsCA || !cert.NotBefore.Equal(firstInstant) || !cert.NotAfter.Equal(noEnd) {
			t.Errorf("%s: CA %v, from %v to %v", ca, cert.IsCA, cert.NotBefore, cert.NotAfter)
		}
	}
	// A certificate of one client CA is not valid for the other.
	if err := loadCert(t, f.AdminCert).CheckSignatureFrom(loadCert(t, f.FrontProxyCA)); err == nil {
		t.Error("the front-proxy CA vouches for the administrator")
	}
}

func TestFilesAreAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	f := mustEnsure(t, "tls", Options{})
	for _, path := range []string{f.ServerCA, f.ServingKey, f.ServiceAccountKey} {
		if !filepath.IsAbs(path) {
			t.Errorf("%s is relative", path)
		}
	}
	verifyAll(t, f, time.Now())
}

// The test compares inodes too: no file is replaced by an equal one.
func TestSecondEnsureWritesNothing(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay, "a.example"))
	before, stats := snapshot(t, dir), statAll(t, dir)
	// The certificate also covers fewer names than before.
	mustEnsure(t, dir, at(aDay.Add(leafLifetime-renewBefore-time.Minute)))
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed: %v", names)
	}
	for name, after := range statAll(t, dir) {
		if !os.SameFile(stats[name], after) {
			t.Errorf("%s was replaced", name)
		}
	}
}

func statAll(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	infos := map[string]fs.FileInfo{}
	for name := range snapshot(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		infos[name] = info
	}
	return infos
}

var leafFiles = []string{"admin.crt", "admin.key", "front-proxy.crt", "front-proxy.key", "serving.crt", "serving.key"}

func TestRenewal(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"near the end": leafLifetime - renewBefore + time.Minute,
		"after it":     3 * leafLifetime,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustEnsure(t, dir, at(aDay))
			before, later := snapshot(t, dir), aDay.Add(after)
			f := mustEnsure(t, dir, at(later))
			if names := changed(before, snapshot(t, dir)); !slices.Equal(names, leafFiles) {
				t.Errorf("changed: %v", names)
			}
			verifyAll(t, f, later.Add(leafLifetime-time.Minute))
		})
	}
}

func TestNewNames(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay, "a.example"))
	before := snapshot(t, dir)
	f := mustEnsure(t, dir, at(aDay, "B.example.", "10.0.0.9"))
	if names := changed(before, snapshot(t, dir)); !slices.Equal(names, []string{"serving.crt", "serving.key"}) {
		t.Errorf("changed: %v", names)
	}
	verifyAll(t, f, aDay, "b.example", "10.0.0.9")
}

func TestBadHosts(t *testing.T) {
	for _, host := range []string{"", "https://a.example", "a.example:6443", "[::1]", "10.0.0.0/8", "10.0.0.256", "ä.example", "a b", "*", "a.*.b"} {
		dir := filepath.Join(t.TempDir(), "tls")
		_, err := Ensure(dir, at(aDay, host))
		wantError(t, err, fmt.Sprintf("%q", host), "give it without")
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: %s was made", host, dir)
		}
	}
}

func TestLooseModesAreTightened(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay))
	before := snapshot(t, dir)
	for name := range before {
		if !strings.HasSuffix(name, ".crt") {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustEnsure(t, dir, at(aDay))
	verifyModes(t, dir)
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed: %v", names)
	}
}

// TestHandshake connects a client and a server, each with the other's CA alone,
// at every time that one of their clocks may show.
func TestHandshake(t *testing.T) {
	f := mustEnsure(t, t.TempDir(), at(aDay))
	serving, err := tls.LoadX509KeyPair(f.ServingCert, f.ServingKey)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := tls.LoadX509KeyPair(f.AdminCert, f.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{firstInstant, aDay.AddDate(-10, 0, 0), aDay} {
		clock := func() time.Time { return now }
		serverEnd, clientEnd := net.Pipe()
		server := tls.Server(serverEnd, &tls.Config{
			Certificates: []tls.Certificate{serving}, ClientCAs: loadPool(t, f.ClientCA),
			ClientAuth: tls.RequireAndVerifyClientCert, Time: clock,
		})
		client := tls.Client(clientEnd, &tls.Config{
			Certificates: []tls.Certificate{admin}, RootCAs: loadPool(t, f.ServerCA),
			ServerName: "127.0.0.1", Time: clock,
		})
		served := make(chan error, 1)
		go func() { served <- server.Handshake() }()
		if err := client.Handshake(); err != nil {
			t.Errorf("at %v: client: %v", now, err)
		}
		if err := <-served; err != nil {
			t.Errorf("at %v: server: %v", now, err)
		}
		serverEnd.Close()
		clientEnd.Close()
	}
}
