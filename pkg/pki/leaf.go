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

// leaf is what a certificate must say, and where it and its key are kept.
type leaf struct {
	name, authority   string // its files' base name, and its CA's
	certFile, keyFile string
	commonName        string
	organization      []string
	usage             x509.ExtKeyUsage
	dnsNames          []string
	ips               []net.IP
}

// leaves are all there are. The names and addresses are the serving certificate's.
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

// ensure keeps the pair on disk if it is whole, says at least what l says, was
// signed by ca and lasts; else it makes both files anew.
func (l leaf) ensure(ca authority, now time.Time) error {
	old, err := l.load(ca)
	if err != nil {
		return err
	}
	if old != nil && l.saidBy(old) && !leafDue(old, now, ca.cert.NotAfter) {
		return nil
	}
	return l.replace(ca, old, now)
}

// replace makes both files anew. old is what load has returned.
func (l leaf) replace(ca authority, old *x509.Certificate, now time.Time) error {
	key, cert, err := l.issue(ca, replacementEnd(old, now, ca.cert.NotAfter))
	if err != nil {
		return fmt.Errorf("signing %s: %w: check that %s is the certificate of a CA", l.certFile, err, ca.certFile)
	}
	// The key first: see the package comment on power cuts.
	return replace(newFile{l.keyFile, key, 0o600}, newFile{l.certFile, cert, 0o644})
}

// load returns the certificate on disk, or nil if there is none that has its key
// and that ca signed. What exists but cannot be read is an error: it may be
// fine, and a new one could not be put in its place either.
func (l leaf) load(ca authority) (*x509.Certificate, error) {
	key, err := readPrivate(l.keyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cert, err := os.ReadFile(l.certFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading certificate: %w: remove %s and its key to have both made anew", err, l.certFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.cert) != nil {
		return nil, nil
	}
	return pair.Leaf, nil
}

// saidBy says whether cert covers l. More names than were asked for do no harm:
// they were this machine's in an earlier run.
func (l leaf) saidBy(cert *x509.Certificate) bool {
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

// issue returns a new key and its certificate as PEM. The key is new as well, so
// that a copy of the old one ends with the old certificate.
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
