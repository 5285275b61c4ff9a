package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// blockTemp makes writes of path fail, also for root, while reads succeed: it puts a
// directory that is not empty in place of writeAtomic's temporary file.
func blockTemp(t *testing.T, path string) (unblock func()) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".reap-tmp")
	if err := os.MkdirAll(filepath.Join(temp, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() { remove(t, temp) }
}

func ownCA(t *testing.T, path string, notBefore, notAfter time.Time) {
	t.Helper()
	key, keyPEM, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "own"}, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(encodeCert(der))+string(keyPEM))
}

// reissue replaces a certificate by one for the same key that is valid at another time.
func reissue(t *testing.T, certFile, keyFile, pairFile string, notBefore, notAfter time.Time) {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(pairFile, pairFile)
	if err != nil {
		t.Fatal(err)
	}
	old, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	template := *old.Leaf
	template.NotBefore, template.NotAfter = notBefore, notAfter
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.Leaf, old.Leaf.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, string(encodeCert(der)))
}

var allFiles = []string{
	"server-ca.pem", "server-ca.crt", "client-ca.pem", "client-ca.crt", "front-proxy-ca.pem", "front-proxy-ca.crt",
	"serving.key", "serving.crt", "admin.key", "admin.crt", "front-proxy.key", "front-proxy.crt", "service-account.key",
}

// TestCutDuringFirstStart stops Ensure before each of its writes in turn, leaves
// half a temporary file there as a cut does, and starts again.
func TestCutDuringFirstStart(t *testing.T) {
	for i, name := range allFiles {
		dir := t.TempDir()
		unblock := blockTemp(t, filepath.Join(dir, name))
		_, err := Ensure(dir, at(aDay))
		wantError(t, err, filepath.Join(dir, name), "check that")
		unblock()
		before := snapshot(t, dir)
		want := i
		if name == "serving.crt" || name == "admin.crt" || name == "front-proxy.crt" {
			want-- // its key waits for it
		}
		if len(before) != want {
			t.Fatalf("%d files exist before %s is written: the order is not that of allFiles", len(before), name)
		}
		temp := filepath.Join(dir, "."+name+".reap-tmp")
		if err := os.WriteFile(temp, []byte("-----BEGIN"), 0o666); err != nil {
			t.Fatal(err)
		}

		f := mustEnsure(t, dir, at(aDay))
		verifyAll(t, f, aDay)
		after := snapshot(t, dir)
		for _, kept := range allFiles[:i] {
			// A leaf's key without a certificate has not been used: it may go.
			if before[kept] != after[kept] && !slices.Contains(leafFiles, kept) {
				t.Errorf("cut before %s: %s was replaced", name, kept)
			}
		}
	}
}

// TestCutDuringRenewal does the same as TestCutDuringFirstStart during a renewal.
func TestCutDuringRenewal(t *testing.T) {
	later := aDay.Add(leafLifetime)
	for _, name := range leafFiles {
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		cas := snapshot(t, dir)
		unblock := blockTemp(t, filepath.Join(dir, name))
		if _, err := Ensure(dir, at(later)); err == nil {
			t.Fatalf("%s was not written", name)
		}
		unblock()
		f := mustEnsure(t, dir, at(later))
		verifyAll(t, f, later)
		if names := changed(cas, snapshot(t, dir)); !slices.Equal(names, leafFiles) {
			t.Errorf("cut before %s: changed %v", name, names)
		}
	}
}

// TestMissingFilesAreReplacedUnlessACALostItsKey deletes every combination of the
// files of one kind. Leaves are replaced. A CA's files are restored if its key is
// there, and made if both are missing.
func TestMissingFilesAreReplacedUnlessACALostItsKey(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay))
	whole := snapshot(t, dir)
	groups := [][]string{{"server-ca.pem", "server-ca.crt", "serving.key", "serving.crt"}, {"front-proxy-ca.pem", "front-proxy-ca.crt", "front-proxy.key", "front-proxy.crt"}, {"service-account.key", "admin.key", "admin.crt"}}
	for _, group := range groups {
		for bits := range 1 << len(group) {
			gone := map[string]bool{}
			for i, name := range group {
				gone[name] = bits&(1<<i) != 0
			}
			for name, data := range whole {
				path := filepath.Join(dir, name)
				remove(t, path)
				if !gone[name] {
					write(t, path, data)
				}
			}
			f, err := Ensure(dir, at(aDay))
			if group[0] != "service-account.key" && gone[group[0]] && !gone[group[1]] {
				wantError(t, err, filepath.Join(dir, group[0]), filepath.Join(dir, group[1]), "restore it from a backup")
				continue
			}
			if err != nil {
				t.Errorf("without %v: %v", gone, err)
				continue
			}
			after := snapshot(t, dir)
			for name := range whole {
				if filepath.Ext(name) == ".pem" && !gone[name] && after[name] != whole[name] {
					t.Errorf("without %v: %s was replaced", gone, name)
				}
			}
			// The files were written anew by this test, all 0600.
			for _, cert := range []string{f.ServerCA, f.ClientCA, f.FrontProxyCA, f.ServingCert, f.AdminCert, f.FrontProxyCert} {
				if err := os.Chmod(cert, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			verifyAll(t, f, aDay)
		}
	}
}

// A damaged leaf is replaced, whatever the damage, and nothing else is.
func TestDamagedLeafIsReplaced(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	mine, theirs := snapshot(t, dir), snapshot(t, other)
	for name, damage := range map[string]map[string]string{
		"empty certificate":   {"admin.crt": ""},
		"empty key":           {"admin.key": ""},
		"no certificate":      {"admin.crt": "x"},
		"half a certificate":  {"admin.crt": mine["admin.crt"][:200]},
		"no key":              {"admin.key": mine["admin.crt"]},
		"another key":         {"admin.key": mine["serving.key"]},
		"another CA's":        {"admin.crt": theirs["admin.crt"], "admin.key": theirs["admin.key"]},
		"another usage":       {"admin.crt": mine["serving.crt"], "admin.key": mine["serving.key"]},
		"another one's names": {"serving.crt": mine["admin.crt"], "serving.key": mine["admin.key"]},
	} {
		t.Run(name, func(t *testing.T) {
			for file, data := range damage {
				write(t, filepath.Join(dir, file), data)
			}
			before := snapshot(t, dir)
			f := mustEnsure(t, dir, at(aDay))
			verifyAll(t, f, aDay)
			if names := changed(before, snapshot(t, dir)); len(names) != 2 {
				t.Errorf("changed: %v", names)
			}
		})
	}
}

// The leaf has the right name and usage, but another CA of this directory signed it.
func TestLeafOfAnotherCAIsReplaced(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	data, err := os.ReadFile(filepath.Join(dir, "client-ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := parseAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	forged := leaf{certFile: f.FrontProxyCert, keyFile: f.FrontProxyKey, commonName: FrontProxyName, usage: x509.ExtKeyUsageClientAuth}
	if err := forged.ensure(ca, aDay); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, mustEnsure(t, dir, at(aDay)), aDay)
}

// A damaged CA is always an error that says what to do.
func TestDamagedCAIsNeverReplaced(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	mine, theirs := snapshot(t, dir), snapshot(t, other)
	pair, cert := filepath.Join(dir, "server-ca.pem"), filepath.Join(dir, "server-ca.crt")
	for name, damage := range map[string][2]string{ // of .pem, .crt
		"empty pair":               {"", mine["server-ca.crt"]},
		"garbage pair":             {"x", mine["server-ca.crt"]},
		"no key":                   {mine["server-ca.crt"], mine["server-ca.crt"]},
		"no certificate":           {mine["service-account.key"], mine["server-ca.crt"]},
		"key of another":           {mine["server-ca.crt"] + mine["serving.key"], mine["server-ca.crt"]},
		"not a CA":                 {mine["serving.crt"] + mine["serving.key"], mine["server-ca.crt"]},
		"empty certificate":        {mine["server-ca.pem"], ""},
		"garbage certificate":      {mine["server-ca.pem"], "x"},
		"certificate of another":   {mine["server-ca.pem"], theirs["server-ca.crt"]},
		"pair of another":          {theirs["server-ca.pem"], mine["server-ca.crt"]},
		"pair of another CA of us": {mine["client-ca.pem"], mine["server-ca.crt"]},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, pair, damage[0])
			write(t, cert, damage[1])
			before := snapshot(t, dir)
			_, err := Ensure(dir, at(aDay))
			wantError(t, err, pair, cert, "restore", "remove")
			if names := changed(before, snapshot(t, dir)); names != nil {
				t.Errorf("changed: %v", names)
			}
		})
	}
}

func TestCACertificateFileMayHoldFurtherCAs(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	write(t, f.ClientCA, snapshot(t, other)["client-ca.crt"]+snapshot(t, dir)["client-ca.crt"])
	before := snapshot(t, dir)
	mustEnsure(t, dir, at(aDay))
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed: %v", names)
	}
}

// TestSignerFileHoldsOneCertificate: Kubernetes' signer refuses every other number.
func TestSignerFileHoldsOneCertificate(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	mine, theirs := snapshot(t, dir), snapshot(t, other)
	own := loadCert(t, f.ClientCA)
	for name, files := range map[string]map[string]string{
		"two trusted":            {"client-ca.crt": mine["client-ca.crt"] + theirs["client-ca.crt"]},
		"the other stands first": {"client-ca.crt": theirs["client-ca.crt"] + mine["client-ca.crt"]},
		"a chain beside the key": {"client-ca.pem": mine["client-ca.pem"] + theirs["client-ca.crt"]},
		"two and a chain": {
			"client-ca.pem": mine["client-ca.pem"] + theirs["client-ca.crt"], "client-ca.crt": mine["client-ca.crt"] + theirs["client-ca.crt"],
		},
		"a chain, and a copy of an older certificate": {
			"client-ca.pem": mine["client-ca.pem"] + theirs["client-ca.crt"], "client-ca-signer.crt": theirs["client-ca.crt"],
		},
	} {
		for file, data := range files {
			write(t, filepath.Join(dir, file), data)
		}
		f := mustEnsure(t, dir, at(aDay))
		if got := loadCert(t, f.ClientCASigner); !got.Equal(own) {
			t.Errorf("%s: %s holds the certificate of another key", name, f.ClientCASigner)
		}
		if _, err := tls.LoadX509KeyPair(f.ClientCASigner, f.ClientCAKey); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		before := snapshot(t, dir)
		mustEnsure(t, dir, at(aDay))
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("%s: the next start changed %v", name, names)
		}
		for file := range files {
			if before, made := mine[file]; made {
				write(t, filepath.Join(dir, file), before)
			}
		}
	}
}

func TestServiceAccountKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	for _, damage := range []string{"", "x", snapshot(t, dir)["admin.crt"]} {
		write(t, f.ServiceAccountKey, damage)
		_, err := Ensure(dir, at(aDay))
		wantError(t, err, f.ServiceAccountKey, "restore it from a backup")
		if got, _ := os.ReadFile(f.ServiceAccountKey); !bytes.Equal(got, []byte(damage)) {
			t.Error("the key was replaced")
		}
	}
	remove(t, f.ServiceAccountKey)
	if err := os.Symlink("/nonexistent/sa.key", f.ServiceAccountKey); err != nil {
		t.Fatal(err)
	}
	_, err := Ensure(dir, at(aDay))
	wantError(t, err, f.ServiceAccountKey, "dangling symbolic link")
}

// A directory in place of each file is unreadable for root too.
func TestUnreadableFileIsAnError(t *testing.T) {
	for _, name := range allFiles {
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		path := filepath.Join(dir, name)
		remove(t, path)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Ensure(dir, at(aDay))
		wantError(t, err, path)
	}
}

func TestFileInPlaceOfTheDirectoryIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tls")
	write(t, path, "x")
	for _, dir := range []string{path, filepath.Join(path, "deeper")} {
		_, err := Ensure(dir, at(aDay))
		wantError(t, err, path, "choose another")
	}
}
