package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// leaf describes the required content of a certificate, and the files for it and its key.
type leaf struct {
	name, authority   string // base names of its files and of its CA's files
	certFile, keyFile string
	commonName        string
	organization      []string
	usage             x509.ExtKeyUsage
	dnsNames          []string
	ips               []net.IP
}

// leaves returns all leaves. The names and addresses are for the serving certificate.
func leaves(dir string, dnsNames []string, ips []net.IP) []leaf {
	all := []leaf{{
		name:       "serving",
		authority:  serverCA,
		commonName: "kube-apiserver",
		usage:      x509.ExtKeyUsageServerAuth,
		dnsNames:   dnsNames,
		ips:        ips,
	}, {
		name:         "admin",
		authority:    clientCA,
		commonName:   adminName,
		organization: []string{"system:masters"},
		usage:        x509.ExtKeyUsageClientAuth,
	}, {
		name:       "front-proxy",
		authority:  frontProxyCA,
		commonName: FrontProxyName,
		usage:      x509.ExtKeyUsageClientAuth,
	}}
	for i := range all {
		all[i].certFile = filepath.Join(dir, all[i].name+".crt")
		all[i].keyFile = filepath.Join(dir, all[i].name+".key")
	}
	return all
}

// ensure keeps the pair on disk if key and certificate match, ca has signed the
// certificate, it covers l and is not due for renewal. Otherwise both files are
// replaced.
func (l leaf) ensure(ca authority, now time.Time) error {
	old, err := l.load(ca)
	if err != nil {
		return err
	}
	if old != nil && l.coveredBy(old) && !leafDue(old, now, ca.cert) {
		return nil
	}
	return l.replace(ca, old, now)
}

// replace replaces both files. old is the certificate returned by load.
func (l leaf) replace(ca authority, old *x509.Certificate, now time.Time) error {
	key, cert, err := l.issue(ca, replacementEnd(old, now, ca.cert.NotAfter))
	if err != nil {
		return fmt.Errorf("signing %s: %w: check that %s is the certificate of a CA", l.certFile, err, ca.certFile)
	}
	// The key first: see the package comment on power cuts.
	return replace(newFile{l.keyFile, key, 0o600}, newFile{l.certFile, cert, 0o644})
}

// load returns the certificate on disk, or nil if there is none, its key does not
// match, or ca did not sign it. A file that exists but cannot be read is an error: it
// may be intact, and it could not be replaced either.
func (l leaf) load(ca authority) (*x509.Certificate, error) {
	key, err := readPrivate(l.keyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cert, err := os.ReadFile(l.certFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading certificate: %w: remove %s and its key, and the next start makes both", err, l.certFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.cert) != nil {
		return nil, nil
	}
	return pair.Leaf, nil
}

// coveredBy reports whether cert covers l. Additional names in cert are accepted: the
// machine had them in an earlier run.
func (l leaf) coveredBy(cert *x509.Certificate) bool {
	if cert.Subject.CommonName != l.commonName ||
		!slices.Equal(cert.Subject.Organization, l.organization) ||
		!slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{l.usage}) {
		return false
	}
	for _, name := range l.dnsNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range l.ips {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// issue returns a new key and its certificate as PEM. The old key is not reused, so
// that a copy of it becomes useless when the old certificate expires.
func (l leaf) issue(ca authority, notAfter time.Time) (keyPEM, certPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	notBefore := firstInstant
	if ca.cert.NotBefore.After(notBefore) {
		notBefore = ca.cert.NotBefore
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: l.commonName, Organization: l.organization},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{l.usage},
		DNSNames:              l.dnsNames,
		IPAddresses:           l.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	return keyPEM, encodeCert(der), nil
}
